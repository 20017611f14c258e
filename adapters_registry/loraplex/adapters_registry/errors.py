"""Refusals of the registry; those of a noun are in its folder."""

from loraplex.engine.protocol.errors import DomainError, Kind

NAME_RULE = (
    "1 to 96 letters, digits, '.', '_' and '-', beginning with a letter or digit, "
    "and not the name of a base model"
)


class InvalidAdapterName(DomainError):
    """The name could be mistaken for something else in `<tenant>/<adapter>:vN`."""

    kind, code = Kind.INVALID, "invalid_adapter_name"
    field, rule = "name", NAME_RULE

    def __init__(self, name: str) -> None:
        shown = name[:96]
        super().__init__(f"{shown!r} is no adapter name: {NAME_RULE}.", value=shown)


class AdapterNotFound(DomainError):
    """The tenant has no adapter of this name."""

    kind, code, field = Kind.NOT_FOUND, "adapter_not_found", "name"

    def __init__(self, name: str) -> None:
        shown = name[:96]
        super().__init__(f"There is no adapter named {shown!r}.", value=shown)


class AdapterDeleted(DomainError):
    """A deleted adapter keeps its name until it is purged."""

    kind, code = Kind.CONFLICT, "adapter_deleted"
    field, rule = "name", "an adapter that is not deleted"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The adapter {name!r} was deleted and keeps its name until it is purged; restore it, "
            "or use another name.",
            value=name,
        )


class VersionInUse(DomainError):
    """A version that a name points at is not deleted."""

    kind, code = Kind.CONFLICT, "version_in_use"
    field, rule = "version", "a version that no alias and no open rollout names"

    def __init__(self, number: int, alias: str) -> None:
        super().__init__(
            f"Version {number} is what the alias {alias!r} points at or is rolled out to; "
            "move the alias or end the rollout first.",
            value=number,
        )


class VersionNotFound(DomainError):
    """The adapter has no version of this number."""

    kind, code, field = Kind.NOT_FOUND, "version_not_found", "version"

    def __init__(self, name: str, number: int) -> None:
        super().__init__(f"The adapter {name!r} has no version {number}.", value=number)


class ModelNotFound(DomainError):
    """No model that this tenant may call has this name; another tenant's looks the same."""

    kind, code = Kind.NOT_FOUND, "model_not_found"
    field, rule = "model", "a model that GET /v1/models lists"

    def __init__(self, model: str, why: str = "") -> None:
        shown = model[:256]
        message = f"The model {shown!r} does not exist or is not yours to call.{why}"
        super().__init__(message, value=shown)


class BaseModelUnknown(DomainError):
    """The base model is not registered (yet): the platform is still starting."""

    kind, code, field = Kind.OVERLOADED, "base_model_unknown", "base"
    retry_after_seconds = 2

    def __init__(self, name: str) -> None:
        message = f"The base model {name!r} is not registered yet; try again in a moment."
        super().__init__(message, value=name)


class OtherBase(DomainError):
    """The adapter's earlier versions are for another base; a name stays with one."""

    kind, code = Kind.CONFLICT, "adapter_of_other_base"
    field, rule = "name", "one base model for all versions"

    def __init__(self, name: str, base_name: str) -> None:
        super().__init__(
            f"The adapter {name!r} belongs to another base model than {base_name!r}; "
            "upload under another name.",
            value=name,
        )


class TooManyAdapters(DomainError):
    """The tenant has as many adapters as it may."""

    kind, code = Kind.EXHAUSTED, "too_many_adapters"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"This tenant may have {limit} adapters, and has them. Delete one, or ask for more.",
            rule=f"max_adapters of {limit}",
            value=limit + 1,
        )


class StoreUnavailable(DomainError):
    """The object store gave no proper answer."""

    kind, code = Kind.OVERLOADED, "store_unavailable"
    retry_after_seconds = 2

    def __init__(self, reason: str) -> None:
        super().__init__(f"The object store did not answer properly ({reason}).")


class BlobMissing(DomainError):
    """The object store does not have bytes that a row speaks of."""

    kind, code = Kind.OVERLOADED, "blob_missing"

    def __init__(self, key: str) -> None:
        super().__init__(f"The object store has no {key}.", value=key)


class DemoAdapterRejected(DomainError):
    """An adapter that comes with Loraplex does not fit the base model that is served."""

    kind, code = Kind.INVALID, "demo_adapter_rejected"

    def __init__(self, model: str, reasons: str) -> None:
        super().__init__(
            f"The demo's {model} was rejected: {reasons}. Set LORAPLEX_DEMO=0 to go without the "
            "demo.",
            value=model,
        )


class DemoAdapterUnfinished(DomainError):
    """A demo adapter's validation takes too long; the jobs may not be running."""

    kind, code = Kind.OVERLOADED, "demo_adapter_unfinished"

    def __init__(self, model: str, seconds: float) -> None:
        super().__init__(
            f"The demo's {model} is not validated after {seconds:.0f} s; is `loraplex jobs` "
            "running?",
            value=model,
        )
