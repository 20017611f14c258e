import json
import struct
from pathlib import Path

import numpy as np
import pytest

from loraplex.adapters_registry import finite
from loraplex.adapters_registry.finite import find_not_finite
from loraplex.adapters_registry.safetensors_guard import read_header

BITS = {
    "F32": (
        "<u4",
        {
            "nan": 0x7FC00000,
            "inf": 0x7F800000,
            "-inf": 0xFF800000,
            "65504": 0x477FE000,
            "-65505": 0xC77FE100,
        },
    ),
    "F16": (
        "<u2",
        {"nan": 0x7E00, "inf": 0x7C00, "-inf": 0xFC00, "65504": 0x7BFF, "-65505": 0xFC00},
    ),
    "BF16": (
        "<u2",
        {"nan": 0x7FC0, "inf": 0x7F80, "-inf": 0xFF80, "65504": 0x477F, "-65505": 0xC780},
    ),
}


def write(path: Path, dtype: str, good: bytes, bad: bytes) -> None:
    size = np.dtype(BITS[dtype][0]).itemsize
    header = json.dumps(
        {
            name: {"dtype": dtype, "shape": [len(data) // size], "data_offsets": [start, end]}
            for name, data, start, end in (
                ("good", good, 0, len(good)),
                ("bad", bad, len(good), len(good) + len(bad)),
            )
        }
    ).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + good + bad)


@pytest.mark.parametrize("dtype", BITS)
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "65504", "-65505"])
@pytest.mark.parametrize("place", [0, 777, 999])
def test_a_single_bad_number_is_found_and_the_largest_that_fits_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, value: str, place: int
) -> None:
    monkeypatch.setattr(finite, "CHUNK_BYTES", 256)
    kind, patterns = BITS[dtype]
    numbers = np.full(1000, patterns["65504"], dtype=kind)
    bad = numbers.copy()
    bad[place] = patterns[value]
    path = tmp_path / "file.safetensors"
    write(path, dtype, numbers.tobytes(), bad.tobytes())
    expected = [] if value == "65504" else ["bad"]
    assert find_not_finite(path, read_header(path)) == expected
