"""Refusals of what is switched off, and of switches that there are not."""

from loraplex.engine.protocol.errors import DomainError, FixedRefusal, Kind

RETRY_AFTER_SECONDS = 60


class ReadOnly(FixedRefusal):
    """Operators let nobody change anything for now."""

    kind, code = Kind.OVERLOADED, "read_only"
    rule = "GET while the platform is read-only"
    retry_after_seconds = RETRY_AFTER_SECONDS
    message = "The platform is read-only for now: nothing can be changed, models can be called."


class UploadsOff(FixedRefusal):
    """Operators let no adapter in for now."""

    kind, code = Kind.OVERLOADED, "uploads_off"
    rule = "no uploads for now"
    retry_after_seconds = RETRY_AFTER_SECONDS
    message = "No adapters are taken in for now, by upload or by import."


class UnknownSwitch(DomainError):
    """There is no switch of this name."""

    kind, code = Kind.NOT_FOUND, "switch_not_found"
    field, rule = "name", "read_only, no_uploads or drain_pool:<pool>"

    def __init__(self, name: str) -> None:
        super().__init__(
            "There is no such switch: it is `read_only`, `no_uploads`, or `drain_pool:` and a "
            "pool's name.",
            value=name[:100],
        )


class PoolNotFound(DomainError):
    """No worker is registered in the pool, so that draining it would change nothing."""

    kind, code, field = Kind.NOT_FOUND, "pool_not_found", "pool"

    def __init__(self, pool: str) -> None:
        super().__init__(f"No worker is registered in a pool `{pool[:63]}`.", value=pool[:63])
