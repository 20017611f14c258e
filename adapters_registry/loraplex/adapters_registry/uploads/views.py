"""What others see of a resumable upload."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from loraplex.adapters_registry.uploads.models import Upload, UploadFile, UploadStatus


@dataclass(frozen=True, slots=True)
class FileView:
    """One file: what was announced, how it is cut, and which parts have come."""

    name: str
    size_bytes: int
    sha256: str | None
    part_bytes: int
    parts_received: tuple[int, ...]

    @classmethod
    def of(cls, row: UploadFile, parts: Iterable[int]) -> "FileView":
        return cls(row.name, row.size_bytes, row.sha256, row.part_bytes, tuple(sorted(parts)))


@dataclass(frozen=True, slots=True)
class UploadFailure:
    """Why an upload failed, in words its owner can act on."""

    code: str
    message: str
    field: str | None = None


@dataclass(frozen=True, slots=True)
class UploadView:
    """A resumable upload; `version` once it is completed, `error` once it has failed."""

    id: UUID
    adapter: str
    status: UploadStatus
    files: tuple[FileView, ...]
    version: int | None
    error: UploadFailure | None
    expires_at: datetime
    created_at: datetime

    @classmethod
    def of(cls, row: Upload, files: Iterable[FileView]) -> "UploadView":
        error = row.error
        return cls(
            id=row.id,
            adapter=row.adapter_name,
            status=UploadStatus(row.status),
            files=tuple(files),
            version=row.version,
            error=None if error is None else UploadFailure(**error),  # type: ignore[arg-type]
            expires_at=row.expires_at,
            created_at=row.created_at,
        )
