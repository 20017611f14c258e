"""Base models, adapters and their immutable versions."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, ForeignKey, ForeignKeyConstraint, UniqueConstraint
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
    __table_args__ = (UniqueConstraint("tenant_id", "id"), UniqueConstraint("tenant_id", "name"))

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"))
    name: Mapped[str]
    base_model_id: Mapped[UUID] = mapped_column(ForeignKey("base_models.id"))


class AdapterVersion(Base, Created):
    """One upload. Its bytes never change; its status moves once, to ready or rejected.

    `digest` is the canonical manifest's (base digest, both files' digests); `spec` is the
    AdapterSpec message once ready, `max_rank` its largest. `deadline_at`, `attempts` and
    `last_error` serve the sweeper.
    """

    __tablename__ = "adapter_versions"
    __table_args__ = (
        UniqueConstraint("tenant_id", "id"),
        UniqueConstraint("tenant_id", "adapter_id", "number"),
        UniqueConstraint("tenant_id", "adapter_id", "digest"),
        ForeignKeyConstraint(["tenant_id", "adapter_id"], ["adapters.tenant_id", "adapters.id"]),
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
