import asyncio
import io
import tarfile
import zipfile
from pathlib import Path
from uuid import uuid4

import pytest

from loraplex.adapters_registry.imports.errors import (
    ImportTimedOut,
    SourceDiffers,
    SourceForbidden,
    SourceNotFound,
    SourceRefused,
    SourceTooLarge,
    SourceUnavailable,
)
from loraplex.adapters_registry.imports.fetching import refusal_of
from loraplex.adapters_registry.imports.sources import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    ArchiveSource,
    HttpsSource,
    HubSource,
    S3Source,
)
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.uploads.archives.rules import ArchiveRefused
from loraplex.engine.protocol.errors import Kind
from loraplex.platform.settings import Settings
from tests.adapters_registry.imports.conftest import MakeFetcher, folder_of
from tests.adapters_registry.imports.hub import COMMITS, Hub, serving_hub
from tests.web_server import Asked, serving


class Reserved(list[int]):
    """Remembers what was set aside."""

    async def __call__(self, size_bytes: int) -> None:
        self.append(size_bytes)


def read(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "fetched"
    folder.mkdir()
    return folder


@pytest.fixture
def bucket(services: Settings, store: ObjectStore, files: dict[str, bytes]) -> S3Source:
    """A bucket with an adapter in the embedded store, and the credentials to read it."""
    name = f"theirs-{uuid4().hex}"
    store.client.create_bucket(Bucket=name)
    for file, data in files.items():
        store.client.put_object(Bucket=name, Key=f"adapters/mine/{file}", Body=io.BytesIO(data))
    assert services.s3_secret_access_key is not None
    return S3Source(
        bucket=name,
        prefix="adapters/mine",
        endpoint=services.s3_endpoint,
        region=services.s3_region,
        access_key_id=services.s3_access_key_id,
        secret_access_key=services.s3_secret_access_key.get_secret_value(),
    )


async def test_both_files_come_from_addresses_of_their_own(
    make_fetcher: MakeFetcher, files: dict[str, bytes], target: Path
) -> None:
    async with serving(folder_of(files, "/x/")) as web:
        base, reserved = f"http://127.0.0.1:{web.port}/x/", Reserved()
        source = HttpsSource(f"{base}{CONFIG_FILE}?sig=1", f"{base}{WEIGHTS_FILE}?sig=2")
        await make_fetcher().fetch(source, target, reserved)
    assert read(target) == files
    assert reserved == [sum(len(data) for data in files.values())]
    assert [asked.target for asked in web.asked] == [
        f"/x/{CONFIG_FILE}?sig=1",
        f"/x/{WEIGHTS_FILE}?sig=2",
    ]


async def test_both_files_come_from_a_bucket(
    make_fetcher: MakeFetcher, bucket: S3Source, files: dict[str, bytes], target: Path
) -> None:
    await make_fetcher().fetch(bucket, target, Reserved())
    assert read(target) == files


async def test_what_a_bucket_refuses_is_told_by_its_code_without_credentials(
    make_fetcher: MakeFetcher, bucket: S3Source, target: Path
) -> None:
    def other(**changes: str) -> S3Source:
        return S3Source(
            **{name: getattr(bucket, name) for name in bucket.__struct_fields__} | changes
        )

    with pytest.raises(SourceNotFound, match="NoSuchKey"):
        await make_fetcher().fetch(other(prefix="nowhere"), target, Reserved())
    with pytest.raises(SourceNotFound, match="NoSuchBucket"):
        await make_fetcher().fetch(other(bucket="nobodys"), target, Reserved())
    with pytest.raises(SourceForbidden) as caught:
        await make_fetcher().fetch(other(secret_access_key="wrong" * 8), target, Reserved())
    assert "wrong" not in caught.value.message
    assert str(bucket.access_key_id) not in caught.value.message


async def test_both_files_come_from_one_commit_of_the_hub_though_its_branch_moves(
    make_fetcher: MakeFetcher, files: dict[str, bytes], target: Path
) -> None:
    later = dict.fromkeys(files, b"later")
    async with serving_hub(Hub([files], moves_on=later)) as hub:
        await make_fetcher(hub.url).fetch(
            HubSource("acme/lora", token=hub.token), target, Reserved()
        )
    assert len(hub.commits) == 2
    assert read(target) == files
    assert hub.web.asked[1].target.startswith(f"/acme/lora/resolve/{COMMITS[0]}/")
    (stored,) = hub.storage.asked
    assert "authorization" not in stored.headers, "the token is the hub's, not its storage's"


@pytest.mark.parametrize(
    ("source", "error", "reason"),
    [
        (HubSource("acme/lora", token="hf_other"), SourceForbidden, "RepoNotFound"),
        (HubSource("acme/else", token="hf_secret"), SourceNotFound, "RepoNotFound"),
        (HubSource("acme/lora", "v9", token="hf_secret"), SourceNotFound, "RevisionNotFound"),
        (HubSource("acme/lora", folder="x", token="hf_secret"), SourceNotFound, "EntryNotFound"),
    ],
)
async def test_what_the_hub_refuses_is_told_by_its_code(
    make_fetcher: MakeFetcher,
    files: dict[str, bytes],
    target: Path,
    source: HubSource,
    error: type[Exception],
    reason: str,
) -> None:
    async with serving_hub(Hub([files])) as hub:
        with pytest.raises(error, match=reason) as caught:
            await make_fetcher(hub.url).fetch(source, target, Reserved())
    assert "hf_" not in str(caught.value)


async def test_bytes_that_are_not_those_announced_are_refused(
    make_fetcher: MakeFetcher, files: dict[str, bytes], target: Path
) -> None:
    async with serving_hub(Hub([files], lies_about=WEIGHTS_FILE)) as hub:
        source = HubSource("acme/lora", token=hub.token)
        with pytest.raises(SourceDiffers):
            await make_fetcher(hub.url).fetch(source, target, Reserved())


def packed(kind: str, files: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in files.items():
                archive.writestr(f"mine/{name}", data)
    else:
        with tarfile.open(fileobj=file, mode="w:gz") as tar:
            for name, data in files.items():
                entry = tarfile.TarInfo(f"mine/{name}")
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    return file.getvalue()


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
async def test_both_files_come_in_one_archive(
    make_fetcher: MakeFetcher, files: dict[str, bytes], target: Path, kind: str
) -> None:
    data, reserved = packed(kind, files), Reserved()
    async with serving(folder_of({f"x.{kind}": data})) as web:
        source = ArchiveSource(f"http://127.0.0.1:{web.port}/x.{kind}?sig=1")
        await make_fetcher().fetch(source, target, reserved)
    assert read(target) == files
    assert reserved == [len(data)]


async def test_an_archive_that_would_not_be_opened_as_an_upload_is_none_here_either(
    make_fetcher: MakeFetcher, files: dict[str, bytes], target: Path
) -> None:
    data = packed("zip", files | {"model.pkl": b"pickle"})
    async with serving(folder_of({"x.zip": data})) as web:
        with pytest.raises(ArchiveRefused, match=r"model\.pkl"):
            await make_fetcher().fetch(
                ArchiveSource(f"http://127.0.0.1:{web.port}/x.zip"), target, Reserved()
            )


async def test_a_file_that_is_too_large_is_named_before_its_bytes_are_read(
    make_fetcher: MakeFetcher, files: dict[str, bytes], target: Path
) -> None:
    async with serving(folder_of(files)) as web:
        base, reserved = f"http://127.0.0.1:{web.port}/", Reserved()
        source = HttpsSource(f"{base}{CONFIG_FILE}", f"{base}{WEIGHTS_FILE}?sig=hidden")
        with pytest.raises(SourceTooLarge, match=WEIGHTS_FILE) as caught:
            await make_fetcher(max_weights_bytes=100).fetch(source, target, reserved)
        assert "hidden" not in caught.value.message
        assert not reserved
        assert not (target / WEIGHTS_FILE).exists()


async def test_without_an_announced_size_the_most_that_is_accepted_is_reserved(
    make_fetcher: MakeFetcher, files: dict[str, bytes], target: Path
) -> None:
    async def respond(asked: Asked, writer: asyncio.StreamWriter) -> None:
        body = files[asked.target.lstrip("/")]
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n")

    async with serving(respond) as web:
        base, reserved = f"http://127.0.0.1:{web.port}/", Reserved()
        source = HttpsSource(f"{base}{CONFIG_FILE}", f"{base}{WEIGHTS_FILE}")
        await make_fetcher(max_weights_bytes=500_000).fetch(source, target, reserved)
        assert reserved == [len(files[CONFIG_FILE]) + 500_000]
        (target / CONFIG_FILE).unlink()
        (target / WEIGHTS_FILE).unlink()
        with pytest.raises(SourceTooLarge):
            await make_fetcher(max_weights_bytes=100).fetch(source, target, reserved)


async def test_a_source_that_takes_too_long_is_told_so(
    make_fetcher: MakeFetcher, files: dict[str, bytes], target: Path
) -> None:
    async def respond(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.target.endswith(CONFIG_FILE):
            await folder_of(files)(asked, writer)
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nslow")
        await writer.drain()
        await asyncio.sleep(10)

    async with serving(respond) as web:
        base = f"http://127.0.0.1:{web.port}/"
        source = HttpsSource(f"{base}{CONFIG_FILE}", f"{base}{WEIGHTS_FILE}")
        with pytest.raises(ImportTimedOut):
            await make_fetcher(seconds=0.5).fetch(source, target, Reserved())


@pytest.mark.parametrize(
    ("status", "error", "is_worth_another_try"),
    [
        (404, SourceNotFound, False),
        (410, SourceNotFound, False),
        (401, SourceForbidden, False),
        (403, SourceForbidden, False),
        (400, SourceRefused, False),
        (301, SourceRefused, False),
        (206, SourceRefused, False),
        (429, SourceUnavailable, True),
        (500, SourceUnavailable, True),
        (503, SourceUnavailable, True),
    ],
)
def test_a_status_says_whether_another_attempt_makes_sense(
    status: int, error: type[Exception], is_worth_another_try: bool
) -> None:
    refusal = refusal_of("file", status, "")
    assert type(refusal) is error
    assert (refusal.kind is Kind.OVERLOADED) == is_worth_another_try
