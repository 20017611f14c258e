"""Where an import's files are: in a bucket, at https addresses, or in a repository of the hub.

A source says of itself what may be shown. Its credentials, and the queries of its addresses, which
may be signatures, are never part of that.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

import httpx
import msgspec

from loraplex.adapters_registry.imports.errors import InvalidSource
from loraplex.adapters_registry.uploads.files import CONFIG_NAME, WEIGHTS_NAME, is_archive
from loraplex.platform.outbound.rules import OutboundRules

CONFIG_FILE = CONFIG_NAME
WEIGHTS_FILE = WEIGHTS_NAME
ARCHIVE_FILE = "archive"
"""What a source's only file is called here, where it is an archive of both."""

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_REGION: Final = re.compile(r"[a-z0-9-]{1,32}", re.ASCII)
_REPOSITORY: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_REVISION: Final = re.compile(r"[\w.-]+(/[\w.-]+)*", re.ASCII)
MAX_REVISION_CHARACTERS = 200
MAX_PREFIX_CHARACTERS = 900
"""Of S3's 1024 bytes for a key, what leaves room for a file's name."""


class S3Source(msgspec.Struct, frozen=True, tag="s3"):
    """A folder or an archive in a bucket: of Amazon's, or of the store at `endpoint`.

    Without an access key the bucket is read as anybody may read it.
    """

    bucket: str
    prefix: str
    endpoint: str | None = None
    region: str = "us-east-1"
    access_key_id: str | None = None
    secret_access_key: str | None = None
    session_token: str | None = None

    def check(self, rules: OutboundRules) -> None:
        if not _BUCKET.fullmatch(self.bucket) or ".." in self.bucket:
            raise InvalidSource("url", "s3://BUCKET/FOLDER with a bucket's name of S3", self.bucket)
        check_path("url", self.prefix, MAX_PREFIX_CHARACTERS)
        if not _REGION.fullmatch(self.region):
            rule = "lower-case letters, digits and '-', such as eu-central-1"
            raise InvalidSource("region", rule, self.region)
        if (self.access_key_id is None) != (self.secret_access_key is None):
            missing = "access_key_id" if self.access_key_id is None else "secret_access_key"
            raise InvalidSource(missing, "access_key_id and secret_access_key, or neither")
        if self.session_token is not None and self.access_key_id is None:
            raise InvalidSource("session_token", "only together with an access key")
        if self.endpoint is not None:
            url = rules.check(self.endpoint)
            if url.query or url.path not in ("", "/"):
                raise InvalidSource("endpoint", "scheme, host and port alone")

    @property
    def file_names(self) -> tuple[str, ...]:
        return (ARCHIVE_FILE,) if is_archive(self.prefix) else (CONFIG_FILE, WEIGHTS_FILE)

    def shown(self) -> dict[str, object]:
        return {
            "kind": "s3",
            "url": f"s3://{self.bucket}/{self.prefix}",
            "region": self.region,
            "endpoint": self.endpoint,
        }


class HttpsSource(msgspec.Struct, frozen=True, tag="https"):
    """Two files at addresses of their own."""

    config_url: str
    weights_url: str
    file_names: ClassVar[tuple[str, ...]] = (CONFIG_FILE, WEIGHTS_FILE)

    def check(self, rules: OutboundRules) -> None:
        rules.check(self.config_url)
        rules.check(self.weights_url)

    def shown(self) -> dict[str, object]:
        return {
            "kind": "https",
            "config_url": without_query(self.config_url),
            "weights_url": without_query(self.weights_url),
        }


class ArchiveSource(msgspec.Struct, frozen=True, tag="archive"):
    """Both files in one, at an https address."""

    url: str
    file_names: ClassVar[tuple[str, ...]] = (ARCHIVE_FILE,)

    def check(self, rules: OutboundRules) -> None:
        rules.check(self.url)

    def shown(self) -> dict[str, object]:
        return {"kind": "https", "url": without_query(self.url)}


class HubSource(msgspec.Struct, frozen=True, tag="hub"):
    """A folder of a repository of the Hugging Face hub, at a branch, tag or commit."""

    repository: str
    revision: str = "main"
    folder: str = ""
    token: str | None = None
    file_names: ClassVar[tuple[str, ...]] = (CONFIG_FILE, WEIGHTS_FILE)

    def check(self, rules: OutboundRules) -> None:
        """The hub's own address is the operator's setting."""
        if not _REPOSITORY.fullmatch(self.repository) or ".." in self.repository:
            raise InvalidSource("repository", "OWNER/NAME", self.repository)
        is_revision = _REVISION.fullmatch(self.revision) and ".." not in self.revision
        if not is_revision or len(self.revision) > MAX_REVISION_CHARACTERS:
            raise InvalidSource("revision", "a branch, a tag or a commit", self.revision)
        check_path("folder", self.folder, MAX_PREFIX_CHARACTERS)
        if self.token is not None and not (self.token.isascii() and self.token.isprintable()):
            raise InvalidSource("token", "a token of the hub")

    def shown(self) -> dict[str, object]:
        return {
            "kind": "hub",
            "repository": self.repository,
            "revision": self.revision,
            "folder": self.folder,
        }


Source = S3Source | HttpsSource | ArchiveSource | HubSource


def encode(source: Source) -> bytes:
    return msgspec.json.encode(source)


def decode(data: bytes) -> Source:
    return msgspec.json.decode(data, type=Source)


def check_path(field: str, path: str, max_characters: int) -> None:
    """A folder's path, possibly empty, that says nothing a server could read in two ways."""
    parts = path.split("/")
    if (
        len(path) > max_characters
        or not path.isprintable()
        or any(part in (".", "..") for part in parts)
        or any(part == "" for part in parts[:-1])
        or "\\" in path
    ):
        raise InvalidSource(field, "a folder's path without '.', '..' and empty parts", path[:200])


def joined(folder: str, name: str) -> str:
    """A file of a folder, whose path may end with a slash or be empty."""
    return f"{folder.rstrip('/')}/{name}" if folder.rstrip("/") else name


def parse_s3_url(url: str) -> tuple[str, str]:
    """Bucket and prefix of `s3://bucket/prefix`; raises InvalidSource."""
    scheme, separator, rest = url.partition("://")
    if scheme != "s3" or not separator:
        raise InvalidSource("url", "s3://BUCKET/FOLDER", url[:200])
    bucket, _, prefix = rest.partition("/")
    return bucket, prefix


def source_at(url: str) -> HttpsSource | ArchiveSource:
    """The folder or the archive at an https address; raises InvalidSource."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        raise InvalidSource("url", "an https:// address") from None
    if is_archive(parsed.path):
        return ArchiveSource(url)
    if parsed.query or not parsed.path.endswith("/"):
        rule = (
            "the address of a .zip or .tar.gz, or one ending in '/', under which both files are; "
            "or config_url and weights_url"
        )
        raise InvalidSource("url", rule)
    return HttpsSource(str(parsed.join(CONFIG_FILE)), str(parsed.join(WEIGHTS_FILE)))


def without_query(url: str) -> str:
    return str(httpx.URL(url).copy_with(query=None, fragment=None, userinfo=b""))
