import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from loraplex.adapters_registry.rejection import AdapterRejected, ReasonCode
from loraplex.adapters_registry.safetensors_guard import MAX_HEADER_BYTES, read_header

Edit = Callable[[dict[str, Any]], object]
GOOD = {
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b.c-d_E": {"dtype": "BF16", "shape": [5], "data_offsets": [24, 34]},
}


def write(folder: Path, header: object, data: bytes = bytes(34), padding: str = "") -> Path:
    raw = (header if isinstance(header, str) else json.dumps(header)) + padding
    path = folder / "file.safetensors"
    path.write_bytes(struct.pack("<Q", len(raw.encode())) + raw.encode() + data)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(AdapterRejected) as refused:
        read_header(path)
    assert refused.value.reasons[0].code in (ReasonCode.FILE_MALFORMED, ReasonCode.FILE_KIND)
    return refused.value.message


def test_a_good_file_is_read_with_offsets_from_its_start(tmp_path: Path) -> None:
    path = write(tmp_path, {"__metadata__": {"format": "pt"}} | GOOD, padding="   ")
    header = read_header(path)
    start = path.stat().st_size - 34
    assert header.file_bytes == start + 34
    entries = header.tensors.values()
    assert [(e.name, e.dtype, e.shape, e.start - start, e.end - start) for e in entries] == [
        ("a", "F32", (2, 3), 0, 24),
        ("b.c-d_E", "BF16", (5,), 24, 34),
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,20}", fullmatch=True).filter(
            lambda name: ".." not in name and name != "__metadata__"
        ),
        st.tuples(
            st.lists(st.integers(1, 4), max_size=3), st.sampled_from([np.float32, np.float16])
        ),
        min_size=1,
        max_size=6,
    )
)
def test_what_the_library_writes_is_accepted(tmp_path: Path, tensors: dict[str, Any]) -> None:
    path = tmp_path / "file.safetensors"
    save_file({name: np.ones(shape, dtype) for name, (shape, dtype) in tensors.items()}, path)
    found = read_header(path).tensors
    assert {name: list(entry.shape) for name, entry in found.items()} == {
        name: shape for name, (shape, _) in tensors.items()
    }


def test_a_gigabyte_header_is_refused_by_its_length_alone(tmp_path: Path) -> None:
    path = tmp_path / "file.safetensors"
    path.write_bytes(struct.pack("<Q", 2**30) + b"{" + bytes(100))
    message = refusal(path)
    assert str(2**30) in message
    assert str(MAX_HEADER_BYTES) in message


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"PK\x03\x04" + bytes(100), "pickle"),
        (b"\x80\x02}q\x00." + bytes(100), "pickle"),
        (b"\x1f\x8b\x08" + bytes(100), "gzip"),
        (b"GGUF" + bytes(100), "GGUF"),
        (b"version https://git-lfs.github.com/spec/v1\n" + bytes(100), "Git LFS"),
        (b"<!DOCTYPE html><html>" + bytes(100), "HTML"),
    ],
)
def test_another_format_is_called_by_its_name(tmp_path: Path, start: bytes, words: str) -> None:
    path = tmp_path / "file.safetensors"
    path.write_bytes(start)
    assert words in refusal(path)
    assert "safetensors" in refusal(path)


def test_a_header_whose_length_looks_like_a_pickle_is_no_pickle(tmp_path: Path) -> None:
    # 0x0280 is written as the bytes 80 02, with which a pickle of protocol 2 begins.
    raw = json.dumps(GOOD)
    path = write(tmp_path, raw + " " * (0x280 - len(raw)))
    assert path.read_bytes()[:2] == b"\x80\x02"
    assert set(read_header(path).tensors) == set(GOOD)


@pytest.mark.parametrize("size", [0, 1, 7])
def test_a_file_shorter_than_a_header_length_is_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file.safetensors"
    path.write_bytes(bytes(size))
    assert f"{size} bytes" in refusal(path)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda h: h["a"].update(dtype="I8"), "dtype I8"),
        (lambda h: h["a"].update(dtype=["F32"]), "dtype"),
        (lambda h: h["a"].update(dtype="F64"), "dtype F64"),
        (lambda h: h["a"].update(shape=[0, 3]), "at least 1"),
        (lambda h: h["a"].update(shape=[True, 6]), "not a list of sizes"),
        (lambda h: h["a"].update(shape=[-2, -3]), "not a list of sizes"),
        (lambda h: h["a"].update(shape=[2.0, 3]), "not a list of sizes"),
        (lambda h: h["a"].update(shape=[2**40, 2**40]), "not a list of sizes"),
        (lambda h: h["a"].update(shape=6), "not a list of sizes"),
        (lambda h: h["a"].update(shape=[1] * 9), "not a list of sizes"),
        (lambda h: h["a"].update(shape=[2, 2]), "takes 16 bytes, its offsets span 24"),
        (lambda h: h["a"].update(data_offsets=[0]), "not two byte counts"),
        (lambda h: h["a"].update(data_offsets=[-24, 0]), "not two byte counts"),
        (lambda h: h["a"].update(data_offsets=[24, 0]), "span -24"),
        (lambda h: h["a"].update(data_offsets=[8, 32]), "gap"),
        (lambda h: h["b.c-d_E"].update(data_offsets=[20, 30]), "overlaps"),
        (lambda h: h["a"].update(extra=1), "exactly dtype, shape and data_offsets"),
        (lambda h: h["a"].pop("shape"), "exactly dtype, shape and data_offsets"),
        (lambda h: h.update(c=[]), "exactly dtype, shape and data_offsets"),
        (lambda h: h.update({"../../etc/passwd": h.pop("a")}), "../../etc/passwd"),
        (lambda h: h.update({"a..b": h.pop("a")}), "a..b"),
        (lambda h: h.update({"": h.pop("a")}), "name"),
        (lambda h: h.update({"x" * 300: h.pop("a")}), "xxx"),
        (lambda h: h.update(__metadata__={"a": 1}), "__metadata__"),
        (lambda h: h.update(__metadata__=[]), "__metadata__"),
        (lambda h: h.pop("b.c-d_E"), "10 bytes follow"),
        (lambda h: h.clear(), "no tensors"),
        (
            lambda h: h.update(z={"dtype": "F32", "shape": [1], "data_offsets": [34, 38]}),
            "cut short",
        ),
    ],
)
def test_a_header_that_lies_is_refused_by_name(tmp_path: Path, edit: Edit, words: str) -> None:
    header = json.loads(json.dumps(GOOD))
    edit(header)
    assert words in refusal(write(tmp_path, header))


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("[1]", "'{'"),
        ('{"a":' + "[" * 100 + "]" * 100 + "}", "deeper"),
        ('{"a": 1, "a": 2}', "repeats the key 'a'"),
        ("{" + " " * 100, "JSON"),
        ('{"a": NaN}', "NaN"),
        ("{" + ",".join(f'"t{i}":{{}}' for i in range(200_000)) + "}", "entries"),
    ],
)
def test_a_header_that_is_no_sound_json_is_refused(tmp_path: Path, header: str, words: str) -> None:
    assert words in refusal(write(tmp_path, header))


def test_more_tensors_than_any_adapter_has_are_refused(tmp_path: Path) -> None:
    header = {
        f"t{i}": {"dtype": "F16", "shape": [1], "data_offsets": [2 * i, 2 * i + 2]}
        for i in range(20_001)
    }
    assert "20001 tensors" in refusal(write(tmp_path, header, bytes(2 * 20_001)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_in_words(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "file.safetensors"
    path.write_bytes(data)
    assert refusal(path).endswith(".")
