"""Refusals about webhooks."""

from uuid import UUID

from loraplex.engine.protocol.errors import DomainError, FixedRefusal, Kind


class WebhookNotFound(DomainError):
    """The tenant has no such endpoint."""

    kind, code, field = Kind.NOT_FOUND, "webhook_not_found", "webhook"

    def __init__(self, endpoint_id: UUID) -> None:
        super().__init__("There is no such webhook.", value=str(endpoint_id))


class DeliveryNotFound(DomainError):
    """The endpoint has no such delivery, or no longer."""

    kind, code, field = Kind.NOT_FOUND, "delivery_not_found", "delivery"

    def __init__(self, delivery_id: UUID) -> None:
        super().__init__("There is no such delivery.", value=str(delivery_id))


class TooManyWebhooks(DomainError):
    """The tenant has as many endpoints as it may."""

    kind, code = Kind.CONFLICT, "too_many_webhooks"

    def __init__(self, limit: int) -> None:
        message = f"A tenant may have {limit} webhooks; delete one first."
        super().__init__(message, rule=f"at most {limit} webhooks", value=limit)


class WebhookDisabled(FixedRefusal):
    """Nothing is sent to an endpoint that is switched off."""

    kind, code = Kind.CONFLICT, "webhook_disabled"
    field, rule = "is_enabled", "true"
    message = "The webhook is disabled; enable it first."


class DeliveryUnderWay(FixedRefusal):
    """A delivery that has not been given up needs no other start."""

    kind, code = Kind.CONFLICT, "delivery_under_way"
    field, rule = "status", "delivered, failed or cancelled"
    value = "pending"
    message = "The delivery is still being tried; its `next_attempt_at` says when next."
