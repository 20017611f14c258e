"""Base models, adapters and their immutable versions."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, ForeignKey, ForeignKeyConstraint, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base, Created


class VersionStatus(StrEnum):
    UPLOADED = "uploaded"
    """Bytes are in the store; validation has not begun."""
    VALIDATING = "validating"
    READY = "ready"
    REJECTED = "rejected"


class BaseModel(Base, Created):
    """A base model this installation serves; `module_table` is its ModuleTable message."""

    __tablename__ = "base_models"

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    name: Mapped[str] = mapped_column(unique=True)
    digest: Mapped[str]
    module_table: Mapped[dict[str, object]]


class Adapter(Base, Created):
    """A tenant's named line of versions, for one base model."""

    __tablename__ = "adapters"
    __table_args__ = (
        UniqueConstraint("tenant_id", "id"),
        UniqueConstraint("tenant_id", "name"),
        Index(None, "deleted_at", postgresql_where=text("deleted_at IS NOT NULL")),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"))
    name: Mapped[str]
    base_model_id: Mapped[UUID] = mapped_column(ForeignKey("base_models.id"))
    deleted_at: Mapped[datetime | None]
    last_number: Mapped[int] = mapped_column(default=0)
    """The newest version's number, purged ones too: none is given twice."""


class AdapterVersion(Base, Created):
    """One upload. Its bytes never change; its status moves once, to ready or rejected.

    `digest` is the canonical manifest's (base digest, both files' digests); `spec` is the
    AdapterSpec message once ready, `max_rank` its largest. `deadline_at`, `attempts` and
    `last_error` serve the sweeper. Deleted or quarantined it cannot be called, whatever its status.
    """

    __tablename__ = "adapter_versions"
    __table_args__ = (
        UniqueConstraint("tenant_id", "id"),
        UniqueConstraint("tenant_id", "adapter_id", "number"),
        UniqueConstraint("tenant_id", "adapter_id", "digest"),
        ForeignKeyConstraint(["tenant_id", "adapter_id"], ["adapters.tenant_id", "adapters.id"]),
        Index(None, "deleted_at", postgresql_where=text("deleted_at IS NOT NULL")),
        Index("adapter_versions_weights_digest_idx", "tenant_id", "weights_digest"),
        Index("adapter_versions_config_digest_idx", "tenant_id", "config_digest"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID]
    adapter_id: Mapped[UUID]
    number: Mapped[int]
    digest: Mapped[str]
    base_digest: Mapped[str]
    status: Mapped[str] = mapped_column(default=VersionStatus.UPLOADED)
    reasons: Mapped[list[dict[str, object]]] = mapped_column(default=list)
    config_digest: Mapped[str]
    weights_digest: Mapped[str]
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    spec: Mapped[dict[str, object] | None]
    max_rank: Mapped[int | None]
    deadline_at: Mapped[datetime]
    attempts: Mapped[int] = mapped_column(default=0)
    last_error: Mapped[str | None]
    deleted_at: Mapped[datetime | None]
    quarantined_at: Mapped[datetime | None]
    quarantine_reason: Mapped[str | None]
