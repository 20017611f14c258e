"""Refusals of uploads, and of bytes that a tenant has no room for."""

from collections.abc import Sequence

from loraplex.engine.protocol.errors import DomainError, FixedRefusal, Kind


class UploadTooLarge(DomainError):
    """A file is larger than an upload may be."""

    kind, code = Kind.TOO_LARGE, "upload_too_large"

    def __init__(self, field: str, size_bytes: int, limit_bytes: int) -> None:
        message = f"{field} has {size_bytes} bytes; at most {limit_bytes} are accepted."
        super().__init__(
            message, field=field, rule=f"at most {limit_bytes} bytes", value=size_bytes
        )


class EmptyUpload(DomainError):
    """A file of the upload has no bytes."""

    kind, code = Kind.INVALID, "empty_upload"
    rule, value = "at least 1 byte", 0

    def __init__(self, field: str) -> None:
        super().__init__(f"{field} is empty.", field=field)


class TooManyOpenUploads(DomainError):
    """The tenant has as many resumable uploads open as it may."""

    kind, code = Kind.LIMITED, "too_many_open_uploads"
    retry_after_seconds = 60

    def __init__(self, limit: int, open_uploads: int) -> None:
        super().__init__(
            f"This tenant has {open_uploads} uploads open and asks for one more; it may have "
            f"{limit}. Complete or abort one, or wait until one expires.",
            rule=f"max_open_uploads of {limit}, {open_uploads} open",
            value=open_uploads + 1,
        )


class UploadNotFound(DomainError):
    """The tenant has no upload of this id."""

    kind, code, field = Kind.NOT_FOUND, "upload_not_found", "id"

    def __init__(self, upload_id: object) -> None:
        shown = str(upload_id)[:64]
        super().__init__(f"There is no upload {shown!r}.", value=shown)


class UploadEnded(DomainError):
    """The upload takes no more parts, or can be completed or aborted no more."""

    kind, code = Kind.CONFLICT, "upload_ended"
    field, rule = "status", "pending"

    def __init__(self, status: str) -> None:
        message = f"The upload is {status}; that is possible only while it is pending."
        super().__init__(message, value=status)


class UploadLost(FixedRefusal):
    """The object store has given up an upload that we had not ended."""

    kind, code, field = Kind.CONFLICT, "upload_lost", "id"
    message = "The object store no longer has the parts of this upload. Open another and send them."


class UploadIncomplete(DomainError):
    """Parts are missing, or have another size than they should."""

    kind, code = Kind.CONFLICT, "upload_incomplete"
    rule = "every part received"

    def __init__(self, file: str, missing: Sequence[int]) -> None:
        shown = ", ".join(map(str, missing[:10])) + (", …" if len(missing) > 10 else "")
        message = f"{len(missing)} parts of {file} are missing: {shown}."
        super().__init__(message, field=file, value=len(missing))


class UnknownUploadFile(DomainError):
    """The upload has no file of this name."""

    kind, code, field = Kind.NOT_FOUND, "upload_file_not_found", "file"

    def __init__(self, file: str, known: Sequence[str]) -> None:
        names = ", ".join(known)
        message = f"The upload has no file {file[:64]!r}; it has {names}."
        super().__init__(message, rule=names, value=file[:64])


class UnknownPart(DomainError):
    """The file has fewer parts than this number."""

    kind, code, field = Kind.INVALID, "upload_part_unknown", "part"

    def __init__(self, file: str, number: int, parts: int) -> None:
        message = f"{file} has parts 1 to {parts}, and no part {number}."
        super().__init__(message, rule=f"1 to {parts}", value=number)


class WrongPartSize(DomainError):
    """A part has fewer or more bytes than its place in the file gives it."""

    kind, code, field = Kind.INVALID, "upload_part_size", "body"

    def __init__(self, number: int, size_bytes: int, wanted_bytes: int) -> None:
        message = f"Part {number} has {size_bytes} bytes; it should have {wanted_bytes}."
        super().__init__(message, rule=f"{wanted_bytes} bytes", value=size_bytes)


class WrongUploadFiles(DomainError):
    """The files announced are neither an adapter's two nor one archive."""

    kind, code = Kind.INVALID, "upload_files"


class ChecksumMismatch(DomainError):
    """The bytes that came are not those whose SHA-256 the client gave."""

    kind, code = Kind.INVALID, "checksum_mismatch"

    def __init__(self, file: str, wanted: str, found: str) -> None:
        message = f"{file} has the SHA-256 {found}, and {wanted} was announced. Upload it again."
        super().__init__(message, field=file, rule=wanted, value=found)


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
    retry_after_seconds = 60

    def __init__(self, limit_bytes: int, used_bytes: int, asked_bytes: int) -> None:
        super().__init__(
            f"{asked_bytes} bytes are asked for, and {used_bytes} of the {limit_bytes} bytes this "
            "tenant may store are in use or reserved. Delete versions, or ask for more.",
            rule=f"max_storage_bytes of {limit_bytes}, {used_bytes} used",
            value=asked_bytes,
        )
