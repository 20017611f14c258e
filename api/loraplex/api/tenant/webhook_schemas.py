"""The bodies of the webhook routes on the wire."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from loraplex.api.schemas import WireModel
from loraplex.platform.webhooks.event_types import EventType

Url = Annotated[str, StringConstraints(min_length=1, max_length=2048)]
Description = Annotated[str, StringConstraints(max_length=200)]
# Strict models take no text for an enumeration's member; this list does.
Events = Annotated[
    list[Annotated[EventType, Field(strict=False)]], Field(max_length=len(EventType))
]


class NewWebhook(WireModel):
    url: Url
    """Where events are sent by POST: https, on the public internet."""
    description: Description = ""
    event_types: Events = []
    """Which events; all when empty or absent."""


class WebhookChanges(WireModel):
    """What is absent stays as it is."""

    url: Url | None = None
    description: Description | None = None
    event_types: Events | None = None
    is_enabled: bool | None = None
    """False sends nothing more and cancels what is on its way; true starts again."""


class Rotation(WireModel):
    overlap_seconds: Annotated[int, Field(ge=0, le=7 * 86400)] = 86400
    """How long the old secret signs beside the new one."""


class Webhook(WireModel):
    id: str
    url: str
    description: str
    event_types: list[EventType]
    is_enabled: bool
    disabled_reason: Literal["tenant", "failures", "gone"] | None
    """Its owner's wish, too many deliveries given up in a row, or an answer of 410."""
    disabled_at: datetime | None
    consecutive_failures: int
    """Deliveries given up since one arrived."""
    previous_secret_expires_at: datetime | None
    created_at: datetime


class WebhookWithSecret(Webhook):
    secret: str
    """Shown this once: what signatures are verified with."""


class WebhookList(WireModel):
    data: list[Webhook]
    next_cursor: str | None


class DeliveryAttempt(WireModel):
    number: int
    started_at: datetime
    milliseconds: int
    status_code: int | None
    response: str | None
    """The reply's first 2048 characters."""
    error: str | None
    """Why there was no reply."""


class Delivery(WireModel):
    """One event on its way to one webhook."""

    id: str
    message_id: str
    """The `webhook-id` header of every attempt."""
    event_type: EventType
    status: Literal["pending", "delivered", "failed", "cancelled"]
    next_attempt_at: datetime | None
    finished_at: datetime | None
    created_at: datetime
    attempts: list[DeliveryAttempt]


class DeliveryList(WireModel):
    data: list[Delivery]
    next_cursor: str | None
