"""Refusals of the registry."""

from collections.abc import Sequence

from loraplex.engine.protocol.errors import DomainError, Kind

NAME_RULE = (
    "1 to 96 letters, digits, '.', '_' and '-', beginning with a letter or digit, "
    "and not the name of a base model"
)


class InvalidAdapterName(DomainError):
    """The name could be mistaken for something else in `<tenant>/<adapter>:vN`."""

    kind, code = Kind.INVALID, "invalid_adapter_name"

    def __init__(self, name: str) -> None:
        shown = name[:96]
        super().__init__(
            f"{shown!r} is no adapter name: {NAME_RULE}.", field="name", rule=NAME_RULE, value=shown
        )


class AdapterNotFound(DomainError):
    """The tenant has no adapter of this name."""

    kind, code = Kind.NOT_FOUND, "adapter_not_found"

    def __init__(self, name: str) -> None:
        shown = name[:96]
        super().__init__(f"There is no adapter named {shown!r}.", field="name", value=shown)


class AdapterDeleted(DomainError):
    """A deleted adapter keeps its name until it is purged."""

    kind, code = Kind.CONFLICT, "adapter_deleted"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The adapter {name!r} was deleted and keeps its name until it is purged; restore it, "
            "or use another name.",
            field="name",
            rule="an adapter that is not deleted",
            value=name,
        )


class VersionInUse(DomainError):
    """A version that a name points at is not deleted."""

    kind, code = Kind.CONFLICT, "version_in_use"

    def __init__(self, number: int, alias: str) -> None:
        super().__init__(
            f"Version {number} is what the alias {alias!r} points at or is rolled out to; "
            "move the alias or end the rollout first.",
            field="version",
            rule="a version that no alias and no open rollout names",
            value=number,
        )


class VersionNotFound(DomainError):
    """The adapter has no version of this number."""

    kind, code = Kind.NOT_FOUND, "version_not_found"

    def __init__(self, name: str, number: int) -> None:
        super().__init__(
            f"The adapter {name!r} has no version {number}.", field="version", value=number
        )


class ModelNotFound(DomainError):
    """No model that this tenant may call has this name; another tenant's looks the same."""

    kind, code = Kind.NOT_FOUND, "model_not_found"

    def __init__(self, model: str, why: str = "") -> None:
        shown = model[:256]
        super().__init__(
            f"The model {shown!r} does not exist or is not yours to call.{why}",
            field="model",
            rule="a model that GET /v1/models lists",
            value=shown,
        )


class BaseModelUnknown(DomainError):
    """The base model is not registered (yet): the platform is still starting."""

    kind, code = Kind.OVERLOADED, "base_model_unknown"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The base model {name!r} is not registered yet; try again in a moment.",
            field="base",
            value=name,
            retry_after_seconds=2,
        )


class OtherBase(DomainError):
    """The adapter's earlier versions are for another base; a name stays with one."""

    kind, code = Kind.CONFLICT, "adapter_of_other_base"

    def __init__(self, name: str, base_name: str) -> None:
        super().__init__(
            f"The adapter {name!r} belongs to another base model than {base_name!r}; "
            "upload under another name.",
            field="name",
            rule="one base model for all versions",
            value=name,
        )


class UploadTooLarge(DomainError):
    """A file is larger than an upload may be."""

    kind, code = Kind.TOO_LARGE, "upload_too_large"

    def __init__(self, field: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"{field} has {size_bytes} bytes; at most {limit_bytes} are accepted.",
            field=field,
            rule=f"at most {limit_bytes} bytes",
            value=size_bytes,
        )


class EmptyUpload(DomainError):
    """A file of the upload has no bytes."""

    kind, code = Kind.INVALID, "empty_upload"

    def __init__(self, field: str) -> None:
        super().__init__(f"{field} is empty.", field=field, rule="at least 1 byte", value=0)


class TooManyOpenUploads(DomainError):
    """The tenant has as many resumable uploads open as it may."""

    kind, code = Kind.LIMITED, "too_many_open_uploads"

    def __init__(self, limit: int, open_uploads: int) -> None:
        super().__init__(
            f"This tenant has {open_uploads} uploads open and asks for one more; it may have "
            f"{limit}. Complete or abort one, or wait until one expires.",
            rule=f"max_open_uploads of {limit}, {open_uploads} open",
            value=open_uploads + 1,
            retry_after_seconds=60,
        )


class UploadNotFound(DomainError):
    """The tenant has no upload of this id."""

    kind, code = Kind.NOT_FOUND, "upload_not_found"

    def __init__(self, upload_id: object) -> None:
        shown = str(upload_id)[:64]
        super().__init__(f"There is no upload {shown!r}.", field="id", value=shown)


class UploadEnded(DomainError):
    """The upload takes no more parts, or can be completed or aborted no more."""

    kind, code = Kind.CONFLICT, "upload_ended"

    def __init__(self, status: str) -> None:
        super().__init__(
            f"The upload is {status}; that is possible only while it is pending.",
            field="status",
            rule="pending",
            value=status,
        )


class UploadIncomplete(DomainError):
    """Parts are missing, or have another size than they should."""

    kind, code = Kind.CONFLICT, "upload_incomplete"

    def __init__(self, file: str, missing: Sequence[int]) -> None:
        shown = ", ".join(map(str, missing[:10])) + (", …" if len(missing) > 10 else "")
        super().__init__(
            f"{len(missing)} parts of {file} are missing: {shown}.",
            field=file,
            rule="every part received",
            value=len(missing),
        )


class UnknownUploadFile(DomainError):
    """The upload has no file of this name."""

    kind, code = Kind.NOT_FOUND, "upload_file_not_found"

    def __init__(self, file: str, known: Sequence[str]) -> None:
        names = ", ".join(known)
        super().__init__(
            f"The upload has no file {file[:64]!r}; it has {names}.",
            field="file",
            rule=names,
            value=file[:64],
        )


class UnknownPart(DomainError):
    """The file has fewer parts than this number."""

    kind, code = Kind.INVALID, "upload_part_unknown"

    def __init__(self, file: str, number: int, parts: int) -> None:
        super().__init__(
            f"{file} has parts 1 to {parts}, and no part {number}.",
            field="part",
            rule=f"1 to {parts}",
            value=number,
        )


class WrongPartSize(DomainError):
    """A part has fewer or more bytes than its place in the file gives it."""

    kind, code = Kind.INVALID, "upload_part_size"

    def __init__(self, number: int, size_bytes: int, wanted_bytes: int) -> None:
        super().__init__(
            f"Part {number} has {size_bytes} bytes; it should have {wanted_bytes}.",
            field="body",
            rule=f"{wanted_bytes} bytes",
            value=size_bytes,
        )


class WrongUploadFiles(DomainError):
    """The files announced are neither an adapter's two nor one archive."""

    kind, code = Kind.INVALID, "upload_files"


class ChecksumMismatch(DomainError):
    """The bytes that came are not those whose SHA-256 the client gave."""

    kind, code = Kind.INVALID, "checksum_mismatch"

    def __init__(self, file: str, wanted: str, found: str) -> None:
        super().__init__(
            f"{file} has the SHA-256 {found}, and {wanted} was announced. Upload it again.",
            field=file,
            rule=wanted,
            value=found,
        )


class UploadNotFinished(DomainError):
    """The platform tried to complete the upload too often."""

    kind, code = Kind.OVERLOADED, "upload_not_finished"

    def __init__(self, attempts: int) -> None:
        super().__init__(
            f"The platform could not complete the upload in {attempts} attempts; nothing says that "
            "its files are wrong. Upload them again."
        )


class StorageQuotaExceeded(DomainError):
    """The tenant's stored and reserved bytes leave no room for these."""

    kind, code = Kind.LIMITED, "storage_quota_exceeded"

    def __init__(self, limit_bytes: int, used_bytes: int, asked_bytes: int) -> None:
        super().__init__(
            f"{asked_bytes} bytes are asked for, and {used_bytes} of the {limit_bytes} bytes this "
            "tenant may store are in use or reserved. Delete versions, or ask for more.",
            rule=f"max_storage_bytes of {limit_bytes}, {used_bytes} used",
            value=asked_bytes,
            retry_after_seconds=60,
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

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The object store did not answer properly ({reason}).", retry_after_seconds=2
        )


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
