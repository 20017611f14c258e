"""Archives are opened by our own rules: what two tools could read differently is refused."""

import gzip
import io
import os
import stat
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loraplex.adapters_registry.uploads.archives import expand
from loraplex.adapters_registry.uploads.archives.rules import ArchiveRefused
from loraplex.adapters_registry.uploads.errors import EmptyUpload, UploadTooLarge
from loraplex.adapters_registry.uploads.files import CONFIG_NAME, WEIGHTS_NAME
from tests.soak import examples

CONFIG, WEIGHTS = b'{"r": 8}', os.urandom(600_000) + bytes(100_000)
FILES = {CONFIG_NAME: CONFIG, WEIGHTS_NAME: WEIGHTS}
LIMITS = {CONFIG_NAME: 1000, WEIGHTS_NAME: 1_000_000}
Make = Callable[[Mapping[str, bytes]], bytes]


def zipped(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def streamed_zip(files: Mapping[str, bytes]) -> bytes:
    """As a program writes that cannot seek back: sizes follow each entry's bytes."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: int) -> int:
            raise io.UnsupportedOperation

    buffer = Pipe()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def stored_zip(files: Mapping[str, bytes]) -> bytes:
    return zipped(files, zipfile.ZIP_STORED)


def tarred(files: Mapping[str, bytes], kind: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=kind) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(data), 1.5
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def gnu_tar(files: Mapping[str, bytes]) -> bytes:
    return tarred(files, tarfile.GNU_FORMAT)


MAKERS: list[Make] = [zipped, stored_zip, streamed_zip, tarred, gnu_tar]


def opened(folder: Path, data: bytes, limits: Mapping[str, int] = LIMITS) -> dict[str, bytes]:
    archive = folder / "archive"
    archive.write_bytes(data)
    out = folder / "out"
    out.mkdir(exist_ok=True)
    try:
        return {name: path.read_bytes() for name, path in expand(archive, out, limits).items()}
    finally:
        assert {file.name for file in out.iterdir()} <= set(FILES)
        for file in out.iterdir():
            assert file.stat().st_size <= limits[file.name]
            file.unlink()


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("top", ["", "./", "my-adapter/"])
def test_the_two_files_come_out_as_they_went_in(make: Make, top: str, tmp_path: Path) -> None:
    files = {f"{top}README.md": b"about", **{top + name: data for name, data in FILES.items()}}
    assert opened(tmp_path, make(files)) == FILES


@pytest.mark.parametrize("kind", ["zip", "gztar"])
def test_what_common_tools_make_of_a_folder_is_accepted(kind: str, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "adapters" / "mine"
    folder.mkdir(parents=True)
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    for root, base in ((tmp_path / "adapters", "mine"), (folder, ".")):
        made = shutil.make_archive(str(tmp_path / "made"), kind, root, base)
        assert opened(tmp_path, Path(made).read_bytes()) == FILES


BAD_NAMES = [
    "../adapter_config.json",
    "/adapter_config.json",
    "a/../adapter_config.json",
    "a//adapter_config.json",
    "a/b/adapter_config.json",
    "a\\adapter_config.json",
    "adapter_config.json\u202e",
    "evil.sh",
    "pytorch_model.bin",
    "training_args.bin",
    "sub/README.md",
    "C:/adapter_config.json",
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_outside_the_list_is_refused_and_told(make: Make, name: str, tmp_path: Path) -> None:
    with pytest.raises(ArchiveRefused) as refused:
        opened(tmp_path, make({**FILES, name: b"x"}))
    assert refused.value.field or "extended header" in refused.value.message


@pytest.mark.parametrize("make", MAKERS)
def test_both_files_must_be_there_and_once(make: Make, tmp_path: Path) -> None:
    with pytest.raises(ArchiveRefused, match="no adapter_config"):
        opened(tmp_path, make({WEIGHTS_NAME: WEIGHTS}))
    with pytest.raises(ArchiveRefused, match="does not lie where"):
        opened(tmp_path, make({**FILES, f"a/{CONFIG_NAME}": CONFIG}))
    with pytest.raises(EmptyUpload):
        opened(tmp_path, make({CONFIG_NAME: b"", WEIGHTS_NAME: WEIGHTS}))


def test_entries_are_counted_even_when_they_are_ignored(tmp_path: Path) -> None:
    with pytest.raises(ArchiveRefused, match="has 67 entries"):
        opened(tmp_path, zipped({f"{n}": b"" for n in range(65)} | FILES))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for _ in range(65):
            tar.addfile(tarfile.TarInfo("README.md"))
    with pytest.raises(ArchiveRefused, match="more than 64 entries"):
        opened(tmp_path, buffer.getvalue())


def test_an_entry_twice_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for data in (CONFIG, WEIGHTS, b"{}"):
            entry = tarfile.TarInfo(WEIGHTS_NAME if data == WEIGHTS else CONFIG_NAME)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    with pytest.raises(ArchiveRefused, match="there twice"):
        opened(tmp_path, buffer.getvalue())
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        for name in (CONFIG_NAME, WEIGHTS_NAME, CONFIG_NAME):
            archive.writestr(name, FILES[name])
    with pytest.raises(ArchiveRefused, match="there twice"):
        opened(tmp_path, buffer.getvalue())


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_links_and_devices_are_refused(kind: bytes, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        entry = tarfile.TarInfo(CONFIG_NAME)
        entry.type, entry.linkname = kind, "/etc/passwd"
        tar.addfile(entry)
    with pytest.raises(ArchiveRefused, match=r"regular files|is a"):
        opened(tmp_path, buffer.getvalue())


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        entry = zipfile.ZipInfo(CONFIG_NAME)
        entry.create_system, entry.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")
        archive.writestr(WEIGHTS_NAME, WEIGHTS)
    with pytest.raises(ArchiveRefused, match="is a link"):
        opened(tmp_path, buffer.getvalue())


def test_headers_that_differ_are_refused(tmp_path: Path) -> None:
    good = zipped(FILES)
    local = good.replace(CONFIG_NAME.encode(), b"adapter_configXjson", 1)
    with pytest.raises(ArchiveRefused, match="two headers that differ"):
        opened(tmp_path, local)
    central = bytearray(good)
    place = good.index(b"PK\x01\x02")
    struct.pack_into("<L", central, place + 24, 999)  # the central list's size of the first entry
    with pytest.raises(ArchiveRefused, match="two headers that differ"):
        opened(tmp_path, bytes(central))


def test_bytes_that_belong_to_no_entry_are_refused(tmp_path: Path) -> None:
    for data in (zipped(FILES), tarred(FILES)):
        for hidden in (b"#!/bin/sh\n" + data, data + b"more", data + data):
            with pytest.raises(ArchiveRefused):
                opened(tmp_path, hidden)
    with pytest.raises(ArchiveRefused, match="behind its end"):
        opened(tmp_path, gzip.compress(gzip.decompress(tarred(FILES)) + b"x"))


@pytest.mark.parametrize("make", [zipped, tarred])
@pytest.mark.parametrize("name", [WEIGHTS_NAME, CONFIG_NAME, "README.md"])
def test_a_bomb_is_refused_before_it_is_unpacked(make: Make, name: str, tmp_path: Path) -> None:
    bomb = make({name: bytes(100_000_000), **{k: v for k, v in FILES.items() if k != name}})
    assert len(bomb) < 1_000_000
    tracemalloc.start()
    try:
        with pytest.raises((UploadTooLarge, ArchiveRefused), match=r"bytes|unpacks"):
            opened(tmp_path, bomb)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 20_000_000


def test_an_entry_with_more_bytes_than_it_says_is_refused(tmp_path: Path) -> None:
    lying = bytearray(zipped({CONFIG_NAME: CONFIG, WEIGHTS_NAME: bytes(900_000)}))
    for magic, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        header = bytes(lying).rindex(magic)
        struct.pack_into("<L", lying, header + place, 1000)
    with pytest.raises(ArchiveRefused, match="more than the 1000 bytes"):
        opened(tmp_path, bytes(lying))


@given(data=st.data(), maker=st.sampled_from(MAKERS))
@settings(
    max_examples=examples(150, 20_000),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_damaged_archive_is_refused_or_means_the_same(
    data: st.DataObject, maker: Make, tmp_path_factory: pytest.TempPathFactory
) -> None:
    small = {CONFIG_NAME: CONFIG, WEIGHTS_NAME: WEIGHTS[:300]}
    damaged = bytearray(maker(small))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "insert"])):
            case "flip":
                damaged[place] ^= data.draw(st.integers(1, 255))
            case "cut":
                del damaged[place : place + data.draw(st.integers(1, 40))]
            case _:
                damaged[place:place] = data.draw(st.binary(min_size=1, max_size=40))
        if not damaged:
            break
    folder = tmp_path_factory.mktemp("damaged")
    try:
        found = opened(folder, bytes(damaged))
    except (ArchiveRefused, UploadTooLarge, EmptyUpload):
        return
    assert found == small
