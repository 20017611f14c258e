"""What others see of endpoints and deliveries: plain values that outlive the session."""

from dataclasses import dataclass
from datetime import datetime
from typing import Self
from uuid import UUID

from loraplex.platform.webhooks.models import (
    DeliveryStatus,
    DisabledReason,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)


@dataclass(frozen=True, slots=True)
class EndpointView:
    """An endpoint without its secrets."""

    id: UUID
    url: str
    description: str
    event_types: tuple[str, ...]
    is_enabled: bool
    disabled_reason: DisabledReason | None
    disabled_at: datetime | None
    consecutive_failures: int
    previous_secret_expires_at: datetime | None
    created_at: datetime

    @classmethod
    def of(cls, row: WebhookEndpoint) -> Self:
        return cls(
            id=row.id,
            url=row.url,
            description=row.description,
            event_types=tuple(row.event_types),
            is_enabled=row.is_enabled,
            disabled_reason=DisabledReason(row.disabled_reason) if row.disabled_reason else None,
            disabled_at=row.disabled_at,
            consecutive_failures=row.consecutive_failures,
            previous_secret_expires_at=row.previous_secret_expires_at,
            created_at=row.created_at,
        )


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One try: a status and a reply, or an error."""

    number: int
    started_at: datetime
    milliseconds: int
    status_code: int | None
    response: str | None
    error: str | None

    @classmethod
    def of(cls, row: WebhookAttempt) -> Self:
        return cls(
            row.number,
            row.started_at,
            row.milliseconds,
            row.status_code,
            row.response,
            row.error,
        )


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """One event on its way to one endpoint, with every try, the first first."""

    id: UUID
    event_id: UUID
    event_type: str
    status: DeliveryStatus
    next_attempt_at: datetime | None
    """None once it is no longer pending."""
    finished_at: datetime | None
    created_at: datetime
    attempts: tuple[AttemptView, ...]

    @classmethod
    def of(
        cls, row: WebhookDelivery, event: WebhookEvent, attempts: tuple[AttemptView, ...]
    ) -> Self:
        status = DeliveryStatus(row.status)
        is_pending = status is DeliveryStatus.PENDING
        return cls(
            id=row.id,
            event_id=event.id,
            event_type=event.type,
            status=status,
            next_attempt_at=row.next_attempt_at if is_pending else None,
            finished_at=row.finished_at,
            created_at=row.created_at,
            attempts=attempts,
        )
