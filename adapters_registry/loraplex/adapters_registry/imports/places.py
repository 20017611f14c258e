"""Where exactly each file of a source is read, and with which credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from loraplex.adapters_registry.imports.sources import (
    ARCHIVE_FILE,
    CONFIG_FILE,
    ArchiveSource,
    HttpsSource,
    HubSource,
    S3Source,
    Source,
    joined,
    without_query,
)

SIGNED_SECONDS = 3600
_S3_CODE: Final = re.compile(rb"<Code>([A-Za-z]{1,64})</Code>")
_PLAIN_BUCKET: Final = re.compile(r"[a-z0-9-]+", re.ASCII)


@dataclass(frozen=True)
class Place:
    """One file: what to call it in front of people, its address and what goes with the call."""

    what: str
    url: str = field(repr=False)
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)


def place_of(source: Source, name: str, hub_url: str) -> Place:
    """Where the file of this name is. May take a moment: signing loads S3's library."""
    match source:
        case S3Source():
            key = source.prefix if name == ARCHIVE_FILE else joined(source.prefix, name)
            return Place(f"s3://{source.bucket}/{key}", signed_url(source, key))
        case HttpsSource():
            url = source.config_url if name == CONFIG_FILE else source.weights_url
            return Place(without_query(url), url)
        case ArchiveSource():
            return Place(without_query(source.url), source.url)
        case HubSource():
            path = joined(source.folder, name)
            url = (
                f"{hub_url.rstrip('/')}/{source.repository}/resolve/"
                f"{quote(source.revision, safe='')}/{quote(path)}"
            )
            token = {} if source.token is None else {"authorization": f"Bearer {source.token}"}
            return Place(f"{source.repository}@{source.revision}/{path}", url, token)


def signed_url(source: S3Source, key: str) -> str:
    """A URL that reads one object with the source's own credentials, or as anybody. Asks nobody.

    Nothing of this process's own configuration, credentials least of all, goes into it.
    """
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config

    is_signed = source.access_key_id is not None
    has_own_host = source.endpoint is None and _PLAIN_BUCKET.fullmatch(source.bucket)
    client = boto3.Session().client(
        "s3",
        region_name=source.region,
        endpoint_url=source.endpoint,
        aws_access_key_id=source.access_key_id,
        aws_secret_access_key=source.secret_access_key,
        aws_session_token=source.session_token,
        config=Config(
            signature_version="s3v4" if is_signed else UNSIGNED,
            s3={"addressing_style": "virtual" if has_own_host else "path"},
            ignore_configured_endpoint_urls=True,
        ),
    )
    url: str = client.generate_presigned_url(
        "get_object", Params={"Bucket": source.bucket, "Key": key}, ExpiresIn=SIGNED_SECONDS
    )
    return url


def reason_in(source: Source, headers: Mapping[str, str], body: bytes) -> str:
    """The source's own word for a refusal, such as NoSuchKey or GatedRepo; empty without one.

    Only the code is taken: messages of S3 repeat keys and signatures.
    """
    if isinstance(source, S3Source):
        found = _S3_CODE.search(body)
        return "" if found is None else found[1].decode()
    if isinstance(source, HubSource):
        code = headers.get("x-error-code", "")
        return code if code.isascii() and code.isalnum() and len(code) <= 64 else ""
    return ""
