"""Why an adapter cannot be pinned."""

from loraplex.engine.protocol.errors import DomainError, Kind


class PinNotFound(DomainError):
    """The adapter is not pinned."""

    kind, code, field = Kind.NOT_FOUND, "pin_not_found", "name"

    def __init__(self, adapter: str) -> None:
        super().__init__(f"The adapter {adapter} is not pinned.", value=adapter)


class TooManyPins(DomainError):
    """The tenant has as many pins as it may."""

    kind, code = Kind.LIMITED, "too_many_pins"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"This tenant may pin {limit} adapters, and has. Unpin another one, or ask for more.",
            rule=f"max_pinned_adapters of {limit}",
            value=limit,
        )
