"""Refusals about webhooks."""

from uuid import UUID

from loraplex.engine.protocol.errors import DomainError, Kind


class WebhookNotFound(DomainError):
    """The tenant has no such endpoint."""

    kind, code = Kind.NOT_FOUND, "webhook_not_found"

    def __init__(self, endpoint_id: UUID) -> None:
        super().__init__("There is no such webhook.", field="webhook", value=str(endpoint_id))


class DeliveryNotFound(DomainError):
    """The endpoint has no such delivery, or no longer."""

    kind, code = Kind.NOT_FOUND, "delivery_not_found"

    def __init__(self, delivery_id: UUID) -> None:
        super().__init__("There is no such delivery.", field="delivery", value=str(delivery_id))


class TooManyWebhooks(DomainError):
    """The tenant has as many endpoints as it may."""

    kind, code = Kind.CONFLICT, "too_many_webhooks"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"A tenant may have {limit} webhooks; delete one first.",
            rule=f"at most {limit} webhooks",
            value=limit,
        )


class WebhookDisabled(DomainError):
    """Nothing is sent to an endpoint that is switched off."""

    kind, code = Kind.CONFLICT, "webhook_disabled"

    def __init__(self) -> None:
        super().__init__(
            "The webhook is disabled; enable it first.", field="is_enabled", rule="true"
        )


class DeliveryUnderWay(DomainError):
    """A delivery that has not been given up needs no other start."""

    kind, code = Kind.CONFLICT, "delivery_under_way"

    def __init__(self) -> None:
        super().__init__(
            "The delivery is still being tried; its `next_attempt_at` says when next.",
            field="status",
            rule="delivered, failed or cancelled",
            value="pending",
        )
