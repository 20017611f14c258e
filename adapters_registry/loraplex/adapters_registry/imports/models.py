"""Imports: where an adapter is fetched from, and how far that has come."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base, Created


class ImportStatus(StrEnum):
    QUEUED = "queued"
    """Waits for its turn, or for another attempt."""
    FETCHING = "fetching"
    COMPLETED = "completed"
    """The bytes are a version, whose own status tells the rest."""
    FAILED = "failed"


OPEN = (ImportStatus.QUEUED, ImportStatus.FETCHING)


class AdapterImport(Base, Created):
    """One import. Its storage reservation has its id.

    `source` is what may be shown of where it comes from; `sealed_source` is all of it, encrypted,
    for as long as the import is open. `fetched_bytes` is of the current attempt. `deadline_at`,
    `attempts` and `last_error` serve the sweeper; `error` says why it failed.
    """

    __tablename__ = "imports"
    __table_args__ = (
        UniqueConstraint("tenant_id", "id"),
        CheckConstraint(
            "(sealed_source IS NULL) = (status IN ('completed', 'failed'))", name="sealed_source"
        ),
        Index("imports_newest_idx", "tenant_id", text("created_at DESC"), text("id DESC")),
        Index(
            "imports_open_idx",
            "deadline_at",
            postgresql_where=text("status IN ('queued', 'fetching')"),
        ),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"))
    adapter_name: Mapped[str]
    base_name: Mapped[str]
    source: Mapped[dict[str, object]]
    # Role `app` may write it and never read it.
    sealed_source: Mapped[bytes | None] = mapped_column(deferred=True)
    status: Mapped[str] = mapped_column(default=ImportStatus.QUEUED)
    fetched_bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    deadline_at: Mapped[datetime]
    attempts: Mapped[int] = mapped_column(default=0)
    last_error: Mapped[str | None]
    error: Mapped[dict[str, object] | None]
    version: Mapped[int | None]
    ended_at: Mapped[datetime | None]
