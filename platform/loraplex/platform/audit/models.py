"""The audit log's table: rows are added, and by no role of a running process changed."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import Index, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base


class AuditEvent(Base):
    """One change: who made it, to what, and how the thing was before and after.

    `tenant_id` is None for what belongs to no tenant. It refers to no row of `tenants`: what was
    written stays when the tenant goes. Times are the database's own clock, which no writer sets.
    """

    __tablename__ = "audit_events"
    __table_args__ = (
        Index("audit_events_tenants_newest_idx", "tenant_id", "created_at", "id"),
        Index("audit_events_newest_idx", "created_at", "id"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, server_default=func.gen_random_uuid())
    tenant_id: Mapped[UUID | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    action: Mapped[str]
    actor_kind: Mapped[str]
    actor_id: Mapped[UUID | None]
    actor_label: Mapped[str]
    address: Mapped[str | None]
    request_id: Mapped[str | None]
    target_kind: Mapped[str]
    target_id: Mapped[str | None]
    target_name: Mapped[str | None]
    before: Mapped[dict[str, object] | None] = mapped_column(JSONB(none_as_null=True))
    after: Mapped[dict[str, object] | None] = mapped_column(JSONB(none_as_null=True))
