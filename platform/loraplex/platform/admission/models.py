"""A running request's place among its tenant's, held by a lease."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, ForeignKeyConstraint
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base, Created


class Reservation(Base, Created):
    """One admitted request. A gateway renews it while the request runs; a dead one's lapses."""

    __tablename__ = "reservations"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "api_key_id"], ["api_keys.tenant_id", "api_keys.id"]),
    )

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    request_id: Mapped[str] = mapped_column(primary_key=True)
    gateway_id: Mapped[str]
    api_key_id: Mapped[UUID]
    weights_digest: Mapped[str | None]
    """The adapter's bytes that a worker may yet fetch: they stay while the request runs."""
    expires_at: Mapped[datetime] = mapped_column(index=True)
