"""The bodies of resumable uploads on the wire."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from loraplex.adapters_registry.uploads.files import MAX_NAME_CHARACTERS, MAX_PARTS
from loraplex.api.schemas import WireModel

MAX_URLS = 16
FileName = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME_CHARACTERS)]


class NewFile(WireModel):
    """A file that is to come."""

    name: FileName
    """`adapter_config.json`, `adapter_model.safetensors`, or an archive's own name."""
    size_bytes: Annotated[int, Field(ge=1, le=2**53)]
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """64 lower-case hex digits; the upload fails when its bytes have others."""


class NewUpload(WireModel):
    adapter: Annotated[str, StringConstraints(min_length=1, max_length=96)]
    files: Annotated[list[NewFile], Field(min_length=1, max_length=2)]


class UploadedFile(WireModel):
    name: str
    size_bytes: int
    sha256: str | None
    part_bytes: int
    """Every part has so many bytes, but the last, which has the rest."""
    parts_received: list[int]


class UploadError(WireModel):
    code: str
    message: str
    field: str | None


class Upload(WireModel):
    """A resumable upload. It ends as a version, or as aborted, expired or failed."""

    id: str
    adapter: str
    status: Literal["pending", "completing", "completed", "aborted", "expired", "failed"]
    files: list[UploadedFile]
    version: int | None
    """The adapter's version that it became, or that had the same bytes before."""
    error: UploadError | None
    expires_at: datetime
    created_at: datetime


class UploadList(WireModel):
    data: list[Upload]
    next_cursor: str | None


class PartUrlsWanted(WireModel):
    file: FileName
    parts: Annotated[
        list[Annotated[int, Field(ge=1, le=MAX_PARTS)]], Field(min_length=1, max_length=MAX_URLS)
    ]


class PartUrl(WireModel):
    part: int
    url: str
    size_bytes: int
    expires_at: datetime | None
    """When a signed address ends; null for one of this API's, which is good while the upload is."""


class PartUrlList(WireModel):
    urls: list[PartUrl]


class PartReceived(WireModel):
    part: int
    size_bytes: int


class NoFields(WireModel):
    """A body without fields, which may be left out."""
