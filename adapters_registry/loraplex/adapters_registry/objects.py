"""Bytes in S3, under keys made of digests and the tenant's opaque namespace alone.

Calls block: from an event loop, use asyncio.to_thread. The client may be shared by threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from loraplex.adapters_registry.errors import BlobMissing, StoreUnavailable

if TYPE_CHECKING:
    from loraplex.platform.settings import Settings

MISSING = frozenset({"404", "NoSuchKey", "NotFound", "NoSuchBucket"})
CHUNK_BYTES = 1024 * 1024
MAX_COPY_BYTES = 5 * 1024**3
"""What S3 copies in one call; beyond it boto3 copies in parts."""
CONNECT_SECONDS = 5
READ_SECONDS = 30


class MultipartUploadMissing(Exception):
    """The store knows no such multipart upload: it was completed or aborted, or never begun."""


@dataclass(frozen=True, slots=True)
class MultipartUpload:
    """A multipart upload at the store; the id is the store's."""

    key: str
    id: str


class ObjectStore:
    """One bucket. Raises StoreUnavailable when the store cannot be reached or refuses."""

    def __init__(self, client: Any, bucket: str) -> None:
        self.client = client
        self.bucket = bucket

    @classmethod
    def from_settings(cls, settings: Settings) -> ObjectStore:
        """Connects to nothing yet. Without credentials in the settings boto3 looks for its own."""
        import boto3
        from botocore.config import Config

        secret = settings.s3_secret_access_key
        client = boto3.client(
            "s3",
            endpoint_url=settings.s3_endpoint,
            region_name=settings.s3_region,
            aws_access_key_id=settings.s3_access_key_id,
            aws_secret_access_key=secret.get_secret_value() if secret else None,
            config=Config(
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                retries={"mode": "standard", "max_attempts": 4},
                signature_version="s3v4",
                s3={"addressing_style": "path"},
                # Checksums of our own name every object; not every store knows S3's newer ones.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
        return cls(client, settings.s3_bucket)

    def put(self, key: str, body: bytes | BinaryIO) -> None:
        """Store the bytes under the key; putting the same again changes nothing."""
        with translated(key):
            self.client.put_object(Bucket=self.bucket, Key=key, Body=body)

    def upload(self, path: Path, key: str) -> None:
        """Store a file of any size under the key."""
        from boto3.exceptions import S3UploadFailedError

        with translated(key):
            try:
                self.client.upload_file(str(path), self.bucket, key)
            except S3UploadFailedError as error:
                raise StoreUnavailable("an upload failed") from error

    def stream(self, key: str) -> Iterator[bytes]:
        """An object's bytes in chunks. Raises BlobMissing before the first."""
        with translated(key):
            body = self.client.get_object(Bucket=self.bucket, Key=key)["Body"]
        return body.iter_chunks(CHUNK_BYTES)  # type: ignore[no-any-return]

    def keys(self, prefix: str) -> list[str]:
        """Some of the keys that begin so, in order: up to a thousand."""
        with translated(prefix):
            page = self.client.list_objects_v2(Bucket=self.bucket, Prefix=prefix)
        return [one["Key"] for one in page.get("Contents", [])]

    def multipart_uploads(self, prefix: str) -> list[MultipartUpload]:
        """Every multipart upload that was begun under the prefix, and has not ended."""
        pages = self.client.get_paginator("list_multipart_uploads").paginate(
            Bucket=self.bucket, Prefix=prefix
        )
        with translated(prefix):
            return [
                MultipartUpload(one["Key"], one["UploadId"])
                for page in pages
                for one in page.get("Uploads", ())
                # Some stores list the whole bucket here, every tenant's, whatever the prefix.
                if one["Key"].startswith(prefix)
            ]

    def abort_multipart_upload(self, upload: MultipartUpload) -> None:
        """Give one up, with the parts that have come. Twice does no harm."""
        with suppress(MultipartUploadMissing), translated(upload.key):
            self.client.abort_multipart_upload(
                Bucket=self.bucket, Key=upload.key, UploadId=upload.id
            )

    def read(self, key: str) -> bytes:
        """All bytes of a small object. Raises BlobMissing."""
        with translated(key):
            data: bytes = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
            return data

    def download(self, key: str, path: Path) -> None:
        """Write an object to a new file. Raises BlobMissing."""
        with translated(key), path.open("xb") as file:
            body = self.client.get_object(Bucket=self.bucket, Key=key)["Body"]
            for chunk in body.iter_chunks(CHUNK_BYTES):
                file.write(chunk)

    def copy(self, source_key: str, key: str) -> None:
        """Copy an object within the store. Raises BlobMissing."""
        from boto3.s3.transfer import TransferConfig

        source = {"Bucket": self.bucket, "Key": source_key}
        one_call = TransferConfig(multipart_threshold=MAX_COPY_BYTES, use_threads=False)
        with translated(source_key):
            self.client.copy(source, self.bucket, key, Config=one_call)

    def size_bytes(self, key: str) -> int | None:
        """The object's size; None when there is no such object."""
        try:
            with translated(key):
                size: int = self.client.head_object(Bucket=self.bucket, Key=key)["ContentLength"]
                return size
        except BlobMissing:
            return None

    def exists(self, key: str) -> bool:
        return self.size_bytes(key) is not None

    def delete(self, key: str) -> None:
        """Remove an object; one that is missing already does no harm."""
        with translated(key):
            self.client.delete_object(Bucket=self.bucket, Key=key)

    def presign_get(self, key: str, seconds: int) -> str:
        """A URL that reads this one object for so long, without credentials. Asks nobody."""
        url: str = self.client.generate_presigned_url(
            "get_object", Params={"Bucket": self.bucket, "Key": key}, ExpiresIn=seconds
        )
        return url

    def ensure_bucket(self) -> None:
        """Make the bucket when it is missing."""
        try:
            self.ping()
        except BlobMissing:
            with translated(self.bucket):
                self.client.create_bucket(Bucket=self.bucket)

    def ping(self) -> None:
        """A signed call for the bucket. Raises BlobMissing when there is none."""
        with translated(self.bucket):
            self.client.head_bucket(Bucket=self.bucket)


@contextmanager
def translated(key: str) -> Iterator[None]:
    """botocore's errors as ours."""
    from botocore.exceptions import BotoCoreError, ClientError
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code == "NoSuchUpload":
            raise MultipartUploadMissing(key) from error
        if code in MISSING:
            raise BlobMissing(key) from error
        raise StoreUnavailable(code or "no reason given") from error
    except (BotoCoreError, HTTPError) as error:
        raise StoreUnavailable(type(error).__name__) from error
