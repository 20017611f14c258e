"""What can go wrong between workers and the controller. NoWorkerAvailable and WorkerLost, which
gateways see, belong to the engine's protocol.
"""

from loraplex.engine.protocol.errors import DomainError, Kind


class FleetOverloaded(DomainError):
    """Every worker that serves the base has as many requests as may wait for it."""

    kind, code = Kind.OVERLOADED, "overloaded"

    def __init__(self, base_name: str, most: int, retry_after_seconds: int) -> None:
        super().__init__(
            f"Too many requests wait for {base_name} right now. Try again.",
            rule=f"at most {most} requests on a worker",
            retry_after_seconds=retry_after_seconds,
        )


class UnknownWorker(DomainError):
    """No such worker is registered: its lease lapsed or it was never there."""

    kind, code = Kind.NOT_FOUND, "unknown_worker"


class WorkerSuperseded(DomainError):
    """A newer incarnation of the worker has registered."""

    kind, code = Kind.CONFLICT, "worker_superseded"


class InvalidRegistration(DomainError):
    """The registration cannot be read, or the worker speaks another version of the protocol."""

    kind, code = Kind.INVALID, "invalid_registration"


class WrongWorkerToken(DomainError):
    """The caller of the internal listener is no worker of this platform."""

    kind, code = Kind.UNAUTHENTICATED, "wrong_worker_token"
