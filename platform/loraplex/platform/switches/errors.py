"""Refusals of what is switched off, and of switches that there are not."""

from loraplex.engine.protocol.errors import DomainError, Kind

RETRY_AFTER_SECONDS = 60


class ReadOnly(DomainError):
    """Operators let nobody change anything for now."""

    kind, code = Kind.OVERLOADED, "read_only"

    def __init__(self) -> None:
        super().__init__(
            "The platform is read-only for now: nothing can be changed, models can be called.",
            rule="GET while the platform is read-only",
            retry_after_seconds=RETRY_AFTER_SECONDS,
        )


class UploadsOff(DomainError):
    """Operators let no adapter in for now."""

    kind, code = Kind.OVERLOADED, "uploads_off"

    def __init__(self) -> None:
        super().__init__(
            "No adapters are taken in for now, by upload or by import.",
            rule="no uploads for now",
            retry_after_seconds=RETRY_AFTER_SECONDS,
        )


class UnknownSwitch(DomainError):
    """There is no switch of this name."""

    kind, code = Kind.NOT_FOUND, "switch_not_found"

    def __init__(self, name: str) -> None:
        super().__init__(
            "There is no such switch: it is `read_only`, `no_uploads`, or `drain_pool:` and a "
            "pool's name.",
            field="name",
            rule="read_only, no_uploads or drain_pool:<pool>",
            value=name[:100],
        )


class PoolNotFound(DomainError):
    """No worker is registered in the pool, so that draining it would change nothing."""

    kind, code = Kind.NOT_FOUND, "pool_not_found"

    def __init__(self, pool: str) -> None:
        super().__init__(
            f"No worker is registered in a pool `{pool[:63]}`.", field="pool", value=pool[:63]
        )
