"""What can go wrong between workers and the controller. NoWorkerAvailable and WorkerLost, which
gateways see, belong to the engine's protocol.
"""

from loraplex.engine.protocol.errors import DomainError, Kind


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
