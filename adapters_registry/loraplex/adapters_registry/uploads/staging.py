"""An upload's bytes before we have read them: S3 multipart uploads under keys of no digest.

Calls block, as ObjectStore's do, and raise StoreUnavailable.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO
from uuid import UUID

from loraplex.adapters_registry.errors import BlobMissing
from loraplex.adapters_registry.objects import (
    CHUNK_BYTES,
    MultipartUpload,
    MultipartUploadMissing,
    ObjectStore,
    translated,
)
from loraplex.engine.protocol.identity import TenantNamespace


@dataclass(frozen=True, slots=True)
class StagedPart:
    """A part as the store has it."""

    number: int
    size_bytes: int
    etag: str


@dataclass(frozen=True, slots=True)
class PartSlot:
    """Where one part of an upload's file goes, and how many bytes it has."""

    upload_id: UUID
    file: str
    number: int
    size_bytes: int
    key: str
    store_upload_id: str


def staging_key(namespace: TenantNamespace, upload_id: UUID, position: int) -> str:
    """Where an upload's file is put together; its name does not show."""
    return f"tenants/{namespace}/staging/{upload_id}/{position}"


class Staging:
    """The staging area of one bucket. `public` signs URLs for clients, where they reach the store.

    Parts of one number replace each other; which was last is the store's to say.
    """

    def __init__(self, store: ObjectStore, public: ObjectStore | None = None) -> None:
        self.store = store
        self.public = public

    def begin(self, key: str) -> str:
        """Open a multipart upload; the store's id of it."""
        with translated(key):
            answer = self.store.client.create_multipart_upload(Bucket=self.store.bucket, Key=key)
            store_upload_id: str = answer["UploadId"]
            return store_upload_id

    def put_part(self, slot: PartSlot, body: BinaryIO) -> None:
        """Store one part; raises MultipartUploadMissing."""
        with translated(slot.key):
            self.store.client.upload_part(**self._named(slot), Body=body)

    def presign_part(self, slot: PartSlot, seconds: int) -> str:
        """A URL that puts this one part, of this size, without credentials. Asks nobody."""
        assert self.public is not None, "only where clients reach the store"
        url: str = self.public.client.generate_presigned_url(
            "upload_part", Params=self._named(slot), ExpiresIn=seconds
        )
        return url

    def _named(self, slot: PartSlot) -> dict[str, object]:
        return {
            "Bucket": self.store.bucket,
            "Key": slot.key,
            "UploadId": slot.store_upload_id,
            "PartNumber": slot.number,
            "ContentLength": slot.size_bytes,
        }

    def parts(self, key: str, store_upload_id: str) -> list[StagedPart]:
        """The parts that the store has, by number; raises MultipartUploadMissing."""
        pages = self.store.client.get_paginator("list_parts").paginate(
            Bucket=self.store.bucket, Key=key, UploadId=store_upload_id
        )
        with translated(key):
            return [
                StagedPart(part["PartNumber"], part["Size"], part["ETag"])
                for page in pages
                for part in page.get("Parts", ())
            ]

    def finish(self, key: str, store_upload_id: str, size_bytes: int) -> None:
        """Put the parts together, or find that it was done before.

        Raises BlobMissing when there is neither the upload nor an object of this size.
        """
        try:
            parts = self.parts(key, store_upload_id)
            with translated(key):
                self.store.client.complete_multipart_upload(
                    Bucket=self.store.bucket,
                    Key=key,
                    UploadId=store_upload_id,
                    MultipartUpload={
                        "Parts": [{"PartNumber": one.number, "ETag": one.etag} for one in parts]
                    },
                )
        except MultipartUploadMissing:
            if self.store.size_bytes(key) != size_bytes:
                raise BlobMissing(key) from None

    def chunks(self, key: str) -> Iterator[bytes]:
        """The bytes of a finished file; raises BlobMissing."""
        with translated(key):
            body = self.store.client.get_object(Bucket=self.store.bucket, Key=key)["Body"]
            yield from body.iter_chunks(CHUNK_BYTES)

    def clear(self, key: str, store_upload_id: str | None) -> None:
        """Leave nothing of a file: neither parts nor object. Twice does no harm."""
        if store_upload_id:
            self.store.abort_multipart_upload(MultipartUpload(key, store_upload_id))
        else:  # whoever began it died before noting the id
            for upload in self.store.multipart_uploads(key):
                if upload.key == key:
                    self.store.abort_multipart_upload(upload)
        self.store.delete(key)
