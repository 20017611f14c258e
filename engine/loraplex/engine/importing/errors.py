"""Why a base model could not be imported."""

from loraplex.engine.protocol.errors import DomainError, Kind


class UnknownModelSource(DomainError):
    """The source names nothing that can be imported."""

    kind, code = Kind.INVALID, "unknown_model_source"


class ModelSourceNotFound(DomainError):
    """The source is well formed, but nothing lies there or it may not be read."""

    kind, code = Kind.NOT_FOUND, "model_source_not_found"


class ModelSourceUnavailable(DomainError):
    """The source could not be reached: a network or an optional package is missing."""

    kind, code = Kind.OVERLOADED, "model_source_unavailable"


class CorruptModelSource(DomainError):
    """The source's bytes are not the ones that were asked for, or break their own format."""

    kind, code = Kind.INVALID, "corrupt_model_source"


class ModelNameTaken(DomainError):
    """A model directory of this name exists and came from elsewhere."""

    kind, code = Kind.CONFLICT, "model_name_taken"
