"""Looks at a safetensors file before any library does, and refuses what an adapter never is.

A file is 8 bytes of little-endian header length, a JSON header, then tensors. Nothing here
allocates more than the header, whatever the file claims.
"""

import math
import re
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from loraplex.adapters_registry.rejection import (
    AdapterRejected,
    ReasonCode,
    reject,
    shortened,
)
from loraplex.adapters_registry.strict_json import JsonRefused, parse_strictly

FILE_FIELD = "adapter_model"
MAX_HEADER_BYTES = 16 * 1024 * 1024
MAX_TENSORS = 20_000
MAX_HEADER_ITEMS = 8 * MAX_TENSORS
HEADER_DEPTH = 3
MAX_SIZE = 2**48
DTYPE_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
TENSOR_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,255}")

OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive, as torch.save writes it (a pickle inside)",
    b"\x80\x02": "a Python pickle",
    b"\x80\x03": "a Python pickle",
    b"\x80\x04": "a Python pickle",
    b"\x80\x05": "a Python pickle",
    b"\x1f\x8b": "a gzip archive",
    b"GGUF": "a GGUF file",
    b"\x93NUMPY": "a NumPy file",
    b"version https://git-lfs": "a Git LFS pointer, not the file it points to",
    b"<!DOCTYPE": "an HTML page",
    b"<html": "an HTML page",
    b"{": "a JSON text",
}


class TensorEntry(msgspec.Struct, frozen=True):
    """One tensor of the file. `start` and `end` count bytes from the start of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


class Header(msgspec.Struct, frozen=True):
    """What a checked file holds; its tensors cover the rest of the file without gap or overlap."""

    tensors: dict[str, TensorEntry]
    file_bytes: int


def read_header(path: Path) -> Header:
    """The header of a safetensors file, checked. Raises AdapterRejected."""
    file_bytes = path.stat().st_size
    with path.open("rb") as file:
        raw = read_raw_header(file, file_bytes)
    try:
        value = parse_strictly(raw, max_depth=HEADER_DEPTH, max_items=MAX_HEADER_ITEMS)
    except JsonRefused as refused:
        raise malformed(f"its header {refused}") from None
    tensors = tensors_of(value, data_start=8 + len(raw))
    check_coverage(tensors, 8 + len(raw), file_bytes)
    return Header(tensors={entry.name: entry for entry in tensors}, file_bytes=file_bytes)


def read_raw_header(file: BinaryIO, file_bytes: int) -> bytes:
    start = file.read(32)
    length = int.from_bytes(start[:8], "little")
    if len(start) < 8:
        raise malformed(f"it has {file_bytes} bytes, fewer than the 8 of a header length")
    if length > MAX_HEADER_BYTES or 8 + length > file_bytes or start[8:9] != b"{":
        raise_if_other_format(start)
    if length > MAX_HEADER_BYTES:
        raise malformed(
            f"it claims a header of {length} bytes; at most {MAX_HEADER_BYTES} are accepted"
        )
    if 8 + length > file_bytes:
        raise malformed(
            f"it claims a header of {length} bytes, but the whole file has {file_bytes}; "
            "the upload may be cut short"
        )
    if start[8:9] != b"{":
        raise malformed("its header does not begin with '{'")
    file.seek(8)
    return file.read(length)


def raise_if_other_format(start: bytes) -> None:
    for magic, name in OTHER_FORMATS.items():
        if start.startswith(magic):
            raise reject(
                ReasonCode.FILE_KIND,
                f"adapter_model is {name}; only safetensors files are accepted. "
                "In PEFT, save with model.save_pretrained(folder, safe_serialization=True).",
                FILE_FIELD,
            )


def tensors_of(value: Any, data_start: int) -> list[TensorEntry]:
    if not isinstance(value, dict):
        raise malformed("its header is not a JSON object")
    check_metadata(value.pop("__metadata__", {}))
    if not value:
        raise malformed("it holds no tensors")
    if len(value) > MAX_TENSORS:
        raise malformed(f"it holds {len(value)} tensors; at most {MAX_TENSORS} are accepted")
    return [tensor_of(name, entry, data_start) for name, entry in value.items()]


def check_metadata(metadata: Any) -> None:
    is_flat = isinstance(metadata, dict) and all(isinstance(v, str) for v in metadata.values())
    if not is_flat:
        raise malformed("its __metadata__ is not an object of strings")


def tensor_of(name: str, entry: Any, data_start: int) -> TensorEntry:
    if not TENSOR_NAME.fullmatch(name) or ".." in name:
        raise malformed(
            f"the tensor name {shortened(name)!r} is not made of letters, digits, '_', '-' and "
            "single dots (256 characters at most)"
        )
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise malformed("it must have exactly dtype, shape and data_offsets", name)
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        raise malformed(f"dtype {shortened(dtype)} is not one of {', '.join(DTYPE_BYTES)}", name)
    if not is_size_list(shape) or 0 in shape or math.prod(shape) > MAX_SIZE:
        raise malformed(f"shape {shortened(shape)} is not a list of sizes of at least 1", name)
    if not is_size_list(offsets) or len(offsets) != 2:
        raise malformed(f"data_offsets {shortened(offsets)} are not two byte counts", name)
    start, end = offsets
    needed = math.prod(shape) * DTYPE_BYTES[dtype]
    if end - start != needed:
        raise malformed(
            f"shape {shape} of {dtype} takes {needed} bytes, its offsets span {end - start}", name
        )
    return TensorEntry(name, dtype, tuple(shape), data_start + start, data_start + end)


def is_size_list(value: Any) -> bool:
    # `type(…) is int`, since True is an int to isinstance.
    return (
        isinstance(value, list)
        and len(value) <= 8
        and all(type(size) is int and 0 <= size <= MAX_SIZE for size in value)
    )


def check_coverage(tensors: list[TensorEntry], data_start: int, file_bytes: int) -> None:
    """Tensors follow each other from the header to the end: no gap, no overlap, no rest."""
    position = data_start
    for entry in sorted(tensors, key=lambda entry: entry.start):
        if entry.start != position:
            fault = "overlaps another tensor" if entry.start < position else "leaves a gap"
            raise malformed(f"its data {fault} at byte {entry.start}", entry.name)
        position = entry.end
    if position > file_bytes:
        raise malformed(
            f"its tensors end at byte {position}, but the file has {file_bytes} bytes; "
            "the upload may be cut short"
        )
    if position < file_bytes:
        raise malformed(f"{file_bytes - position} bytes follow the last tensor")


def malformed(fault: str, tensor: str | None = None) -> AdapterRejected:
    subject = f"tensor {shortened(tensor)}" if tensor else "adapter_model"
    return reject(
        ReasonCode.FILE_MALFORMED,
        f"{subject} is not an acceptable safetensors file: {fault}."
        if tensor is None
        else f"{subject} is malformed: {fault}.",
        tensor or FILE_FIELD,
    )
