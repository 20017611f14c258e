"""The events that tenants can subscribe to."""

from enum import StrEnum


class EventType(StrEnum):
    """What happened, to what; an endpoint may ask for some of these or for all."""

    VERSION_UPLOADED = "adapter.version.uploaded"
    VERSION_VALIDATED = "adapter.version.validated"
    VERSION_REJECTED = "adapter.version.rejected"
    VERSION_QUARANTINED = "adapter.version.quarantined"
    VERSION_DELETED = "adapter.version.deleted"
    VERSION_RESTORED = "adapter.version.restored"
    ALIAS_MOVED = "alias.moved"
    ROLLOUT_STARTED = "rollout.started"
    ROLLOUT_PAUSED = "rollout.paused"
    ROLLOUT_RESUMED = "rollout.resumed"
    ROLLOUT_PROMOTED = "rollout.promoted"
    ROLLOUT_ROLLED_BACK = "rollout.rolled_back"
    UPLOAD_COMPLETED = "upload.completed"
    UPLOAD_EXPIRED = "upload.expired"
    WEBHOOK_DISABLED = "webhook.disabled"
    """An endpoint of the tenant failed so often in a row that nothing more is sent to it."""
    WEBHOOK_TEST = "webhook.test"
    """Somebody pressed the test button; goes to the endpoint that was tested, whatever it asks."""
