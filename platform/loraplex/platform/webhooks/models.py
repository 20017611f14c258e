"""Endpoints, the events, which of them goes where, and every try."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID, uuid4

from sqlalchemy import (
    ARRAY,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    String,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base, Created


class DisabledReason(StrEnum):
    TENANT = "tenant"
    """Its owner switched it off."""
    FAILURES = "failures"
    """Too many deliveries in a row were given up."""
    GONE = "gone"
    """It answered 410."""


class DeliveryStatus(StrEnum):
    PENDING = "pending"
    """Not delivered yet; tried, again, at `next_attempt_at`."""
    DELIVERED = "delivered"
    FAILED = "failed"
    """Given up after the last attempt."""
    CANCELLED = "cancelled"
    """Its endpoint was switched off first."""


class WebhookEndpoint(Base, Created):
    """A tenant's address for events. Empty `event_types` stand for all of them.

    Secrets are sealed. The previous one signs too until it expires, so that a receiver can
    change over at its own time. `consecutive_failures` counts deliveries given up, not attempts.
    """

    __tablename__ = "webhook_endpoints"
    __table_args__ = (UniqueConstraint("tenant_id", "id"),)

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"))
    url: Mapped[str]
    description: Mapped[str]
    event_types: Mapped[list[str]] = mapped_column(ARRAY(String))
    is_enabled: Mapped[bool]
    disabled_reason: Mapped[str | None]
    disabled_at: Mapped[datetime | None]
    sealed_secret: Mapped[bytes] = mapped_column(LargeBinary)
    previous_sealed_secret: Mapped[bytes | None] = mapped_column(LargeBinary)
    previous_secret_expires_at: Mapped[datetime | None]
    consecutive_failures: Mapped[int] = mapped_column(default=0)


class WebhookEvent(Base, Created):
    """What happened, as receivers read it. The id is the receiver's key for doing it once."""

    __tablename__ = "webhook_events"
    __table_args__ = (UniqueConstraint("tenant_id", "id"),)

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"))
    type: Mapped[str]
    data: Mapped[dict[str, object]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now(), index=True)


class WebhookDelivery(Base, Created):
    """One event on its way to one endpoint. Whoever raised `attempts` to N alone may record N."""

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        UniqueConstraint("tenant_id", "id"),
        UniqueConstraint("tenant_id", "endpoint_id", "event_id"),
        ForeignKeyConstraint(
            ["tenant_id", "endpoint_id"],
            ["webhook_endpoints.tenant_id", "webhook_endpoints.id"],
            ondelete="CASCADE",
        ),
        ForeignKeyConstraint(
            ["tenant_id", "event_id"], ["webhook_events.tenant_id", "webhook_events.id"]
        ),
        Index(
            "webhook_deliveries_due_idx",
            "next_attempt_at",
            postgresql_where=text("status = 'pending'"),
        ),
        Index(
            "webhook_deliveries_newest_idx",
            "tenant_id",
            "endpoint_id",
            text("created_at DESC"),
            text("id DESC"),
        ),
        Index("webhook_deliveries_event_idx", "tenant_id", "event_id"),
        Index("webhook_deliveries_created_at_idx", "created_at"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID]
    endpoint_id: Mapped[UUID]
    event_id: Mapped[UUID]
    status: Mapped[str] = mapped_column(default=DeliveryStatus.PENDING)
    attempts: Mapped[int] = mapped_column(default=0)
    next_attempt_at: Mapped[datetime]
    """When a pending delivery is due; while it is being tried, when the try is taken for lost."""
    finished_at: Mapped[datetime | None]


class WebhookAttempt(Base):
    """One try of a delivery: what came back, or what went wrong before anything did."""

    __tablename__ = "webhook_attempts"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "delivery_id"],
            ["webhook_deliveries.tenant_id", "webhook_deliveries.id"],
            ondelete="CASCADE",
        ),
    )

    tenant_id: Mapped[UUID] = mapped_column(primary_key=True)
    delivery_id: Mapped[UUID] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    started_at: Mapped[datetime]
    milliseconds: Mapped[int]
    status_code: Mapped[int | None]
    response: Mapped[str | None]
    """The reply's first characters."""
    error: Mapped[str | None]
