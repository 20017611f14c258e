"""Why an import is refused or fails. Addresses are named by host and path, never by their query."""

from loraplex.engine.protocol.errors import DomainError, Kind


class InvalidSource(DomainError):
    """A part of the source is not what it has to be."""

    kind, code = Kind.INVALID, "invalid_import_source"

    def __init__(self, field: str, rule: str, value: str | None = None) -> None:
        message = f"`{field}` of the source should be: {rule}."
        super().__init__(message, field=f"source.{field}", rule=rule, value=value)


class ImportNotFound(DomainError):
    """The tenant has no such import."""

    kind, code, field = Kind.NOT_FOUND, "import_not_found", "import_id"

    def __init__(self, import_id: str) -> None:
        super().__init__(f"There is no import {import_id}.", value=import_id)


class TooManyImports(DomainError):
    """The tenant has as many open imports as it may."""

    kind, code = Kind.LIMITED, "too_many_imports"
    retry_after_seconds = 30

    def __init__(self, limit: int) -> None:
        message = f"{limit} imports of yours are open already; wait until one has ended."
        super().__init__(message, rule=f"at most {limit} open imports", value=limit)


class SourceNotFound(DomainError):
    """The source does not have a file."""

    kind, code = Kind.INVALID, "import_source_not_found"
    field, rule = "source", "present"

    def __init__(self, what: str, why: str = "it answered 404") -> None:
        super().__init__(f"There is no {what}: {why}.", value=what)


class SourceForbidden(DomainError):
    """The source does not let us read a file."""

    kind, code = Kind.INVALID, "import_source_forbidden"
    field, rule = "source", "readable with the given credentials"

    def __init__(self, what: str, why: str) -> None:
        message = f"{what} may not be read with what the import was given: {why}."
        super().__init__(message, value=what)


class SourceRefused(DomainError):
    """The source answered with a status that will not be another the next time."""

    kind, code, field = Kind.INVALID, "import_source_refused", "source"

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} could not be read: {why}.", value=what)


class SourceUnavailable(DomainError):
    """The source has trouble of its own, or asks to come later."""

    kind, code = Kind.OVERLOADED, "import_source_unavailable"

    def __init__(self, what: str, status: int) -> None:
        super().__init__(f"{what} could not be read: it answered {status}.", value=what)


class SourceDiffers(DomainError):
    """The source announced another digest than its bytes have."""

    kind, code = Kind.OVERLOADED, "import_source_differs"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} has other bytes than its source announced.", value=what)


class SourceTooLarge(DomainError):
    """A file of the source is larger than an upload may be."""

    kind, code, field = Kind.TOO_LARGE, "import_source_too_large", "source"

    def __init__(self, what: str, limit_bytes: int) -> None:
        message = f"{what} has more than the {limit_bytes} bytes that are accepted."
        super().__init__(message, rule=f"at most {limit_bytes} bytes", value=what)


class ImportTimedOut(DomainError):
    """The files did not arrive in the time an import has."""

    kind, code, field = Kind.INVALID, "import_timed_out", "source"

    def __init__(self, seconds: float) -> None:
        message = f"The files did not arrive within {seconds:g} s."
        super().__init__(message, rule=f"at most {seconds:g} s")


class ImportGivenUp(DomainError):
    """The platform itself could not finish it in its attempts."""

    kind, code = Kind.OVERLOADED, "import_given_up"
    rule = "try again later"

    def __init__(self, attempts: int, last_error: str | None) -> None:
        last = f" The last one ended with: {last_error}" if last_error else ""
        super().__init__(f"The import did not succeed in {attempts} attempts.{last}")
