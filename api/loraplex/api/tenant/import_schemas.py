"""The bodies of imports on the wire."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, StringConstraints, model_validator

from loraplex.adapters_registry.imports.sources import (
    HttpsSource,
    HubSource,
    S3Source,
    Source,
    parse_s3_url,
    source_at,
)
from loraplex.api.schemas import WireModel

Text = Annotated[str, StringConstraints(min_length=1, max_length=8192)]
Secret = Annotated[
    str,
    StringConstraints(min_length=1, max_length=4096),
    Field(json_schema_extra={"writeOnly": True}),
]


class S3ImportSource(WireModel):
    """A folder of a bucket that holds adapter_config.json and adapter_model.safetensors."""

    kind: Literal["s3"]
    url: Text
    """`s3://bucket/folder`, or an object ending in .zip or .tar.gz"""
    endpoint: Text | None = None
    """The store's address where it is not Amazon's."""
    region: Text = "us-east-1"
    access_key_id: Secret | None = None
    """Without it, the bucket is read as anybody may read it."""
    secret_access_key: Secret | None = None
    session_token: Secret | None = None

    def source(self) -> Source:
        bucket, prefix = parse_s3_url(self.url)
        return S3Source(
            bucket=bucket,
            prefix=prefix,
            endpoint=self.endpoint,
            region=self.region,
            access_key_id=self.access_key_id,
            secret_access_key=self.secret_access_key,
            session_token=self.session_token,
        )


class HttpsImportSource(WireModel):
    """A folder's address ending in `/`, that of a .zip or .tar.gz, or the address of each file."""

    kind: Literal["https"]
    url: Text | None = None
    config_url: Text | None = None
    weights_url: Text | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "HttpsImportSource":
        pair = (self.config_url is not None) + (self.weights_url is not None)
        if (pair, self.url is None) not in ((0, False), (2, True)):
            raise ValueError("`url` of a folder or an archive, or `config_url` and `weights_url`")
        return self

    def source(self) -> Source:
        if self.url is not None:
            return source_at(self.url)
        assert self.config_url is not None and self.weights_url is not None, "validated"
        return HttpsSource(self.config_url, self.weights_url)


class HubImportSource(WireModel):
    """A repository of the Hugging Face hub, or a folder of it."""

    kind: Literal["hub"]
    repository: Text
    """`owner/name`"""
    revision: Text = "main"
    """A branch, tag or commit."""
    folder: Text = ""
    token: Secret | None = None

    def source(self) -> Source:
        return HubSource(self.repository, self.revision, self.folder, self.token)


class ImportRequest(WireModel):
    adapter: Text
    source: Annotated[
        S3ImportSource | HttpsImportSource | HubImportSource, Field(discriminator="kind")
    ]


class ImportedFrom(WireModel):
    """Where an import comes from, without credentials and without the queries of addresses."""

    kind: Literal["s3", "https", "hub"]
    url: str | None = None
    region: str | None = None
    endpoint: str | None = None
    config_url: str | None = None
    weights_url: str | None = None
    repository: str | None = None
    revision: str | None = None
    folder: str | None = None


class ImportFailure(WireModel):
    """Why an import failed."""

    code: str
    message: str
    field: str | None


class Import(WireModel):
    """An import ends as completed, with the version it became, or failed, with the error."""

    id: UUID
    adapter: str
    source: ImportedFrom
    status: Literal["queued", "fetching", "completed", "failed"]
    bytes: int
    """How many have come in, in the current attempt."""
    attempts: int
    last_error: str | None
    """What the last attempt ended with, while another is to follow."""
    error: ImportFailure | None
    version: int | None
    created_at: datetime
    ended_at: datetime | None


class ImportList(WireModel):
    data: list[Import]
    next_cursor: str | None
