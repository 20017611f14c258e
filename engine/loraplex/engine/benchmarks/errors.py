"""Why a benchmark could not be run."""

from loraplex.engine.protocol.errors import DomainError, Kind


class InvalidWorkload(DomainError):
    """The workload contradicts itself, or takes no measurable time."""

    kind, code = Kind.INVALID, "invalid_workload"


class UnusableAdapter(DomainError):
    """A folder holds no adapter, or one that this base cannot serve."""

    kind, code = Kind.INVALID, "unusable_adapter"
