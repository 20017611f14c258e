import urllib.error
import urllib.request
from io import BytesIO
from pathlib import Path
from uuid import uuid4

import pytest

from loraplex.adapters_registry.errors import BlobMissing, StoreUnavailable
from loraplex.adapters_registry.objects import MultipartUpload, ObjectStore
from loraplex.engine.protocol.identity import TenantNamespace, digest_of_bytes
from loraplex.platform.blobs import blob_key
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.settings import Settings


@pytest.fixture
def key() -> str:
    return f"tests/{uuid4().hex}"


def test_keys_hold_digest_and_namespace_and_no_name() -> None:
    digest = digest_of_bytes(b"weights")
    assert blob_key(TenantNamespace("abc"), digest) == f"tenants/abc/blobs/{digest[7:]}"


def test_bytes_come_back_as_they_went_in(store: ObjectStore, key: str, tmp_path: Path) -> None:
    data = bytes(range(256)) * 20_000
    store.put(key, BytesIO(data))
    assert store.read(key) == data
    assert store.size_bytes(key) == len(data)
    store.download(key, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == data


def test_an_empty_object_is_an_object(store: ObjectStore, key: str) -> None:
    store.put(key, b"")
    assert store.exists(key)
    assert store.size_bytes(key) == 0


def test_a_missing_object_is_told_from_an_unreachable_store(
    store: ObjectStore, services: Settings, key: str
) -> None:
    with pytest.raises(BlobMissing):
        store.read(key)
    assert not store.exists(key)
    nowhere = services.model_copy(update={"s3_endpoint": f"http://127.0.0.1:{free_port()}"})
    with pytest.raises(StoreUnavailable):
        ObjectStore.from_settings(nowhere).exists(key)


def test_wrong_credentials_are_refused_by_the_store(services: Settings, key: str) -> None:
    stranger = services.model_copy(update={"s3_access_key_id": "A" * 20})
    with pytest.raises(StoreUnavailable):
        ObjectStore.from_settings(stranger).put(key, b"x")


def test_a_presigned_url_reads_one_object_without_credentials(store: ObjectStore, key: str) -> None:
    store.put(key, b"weights")
    store.put(f"{key}-other", b"other")
    url = store.presign_get(key, 60)
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"weights"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(url.replace(key, f"{key}-other"))
    assert refused.value.code == 403
    refused.value.close()


def test_deleting_twice_does_no_harm(store: ObjectStore, key: str) -> None:
    store.put(key, b"x")
    store.delete(key)
    store.delete(key)
    assert not store.exists(key)


def test_a_missing_bucket_is_made_once(services: Settings) -> None:
    other = services.model_copy(update={"s3_bucket": f"bucket-{uuid4().hex}"})
    store = ObjectStore.from_settings(other)
    with pytest.raises(BlobMissing):
        store.ping()
    store.ensure_bucket()
    store.ensure_bucket()
    store.ping()


def test_multipart_uploads_are_those_under_the_prefix_and_no_others(
    store: ObjectStore, key: str
) -> None:
    def begin(name: str) -> MultipartUpload:
        answer = store.client.create_multipart_upload(Bucket=store.bucket, Key=name)
        return MultipartUpload(name, answer["UploadId"])

    mine, other = begin(f"{key}/a"), begin(f"{key}-of-another/a")
    assert store.multipart_uploads(f"{key}/") == [mine]
    for _ in range(2):
        store.abort_multipart_upload(mine)
    assert store.multipart_uploads(f"{key}/") == []
    assert store.multipart_uploads(other.key) == [other]
