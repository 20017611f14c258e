"""Exports and deletions of tenants, and the names that are gone for good."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base, Created


class ExportStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class TenantExport(Base, Created):
    """An archive of all that a tenant has; the object store keeps it until `expires_at`."""

    __tablename__ = "tenant_exports"
    __table_args__ = (
        UniqueConstraint("tenant_id", "id"),
        Index("tenant_exports_expires_at_idx", "expires_at"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"))
    status: Mapped[str] = mapped_column(default=ExportStatus.QUEUED)
    requested_by: Mapped[str]
    size_bytes: Mapped[int | None] = mapped_column(BigInteger)
    deadline_at: Mapped[datetime]
    attempts: Mapped[int] = mapped_column(default=0)
    last_error: Mapped[str | None]
    completed_at: Mapped[datetime | None]
    expires_at: Mapped[datetime]


class TenantDeletion(Base, Created):
    """A tenant that goes, or has gone; its namespace says what caches must forget."""

    __tablename__ = "tenant_deletions"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    namespace: Mapped[str]
    requested_by: Mapped[str]
    deadline_at: Mapped[datetime]
    attempts: Mapped[int] = mapped_column(default=0)
    last_error: Mapped[str | None]
    finished_at: Mapped[datetime | None]


class FormerTenantName(Base, Created):
    """A name that a deleted tenant had, as a keyed hash: never given again, never told."""

    __tablename__ = "former_tenant_names"

    name_mac: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
