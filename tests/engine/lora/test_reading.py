"""A file is hashed while it is read: whatever is skipped counts, and nothing is read twice."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.adapter_source import WholeFile
from loraplex.engine.lora.reading import HashedReader, WrongBytes
from loraplex.engine.protocol.identity import digest_of_bytes


@given(st.binary(max_size=4000), st.lists(st.integers(0, 4000), max_size=12))
def test_any_pieces_in_order_give_the_digest_of_the_whole(data: bytes, cuts: list[int]) -> None:
    borders = sorted({min(cut, len(data)) for cut in cuts})
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        reader = HashedReader(WholeFile(file.fileno()))
        for start, end in zip(borders[::2], borders[1::2], strict=False):
            words = np.zeros(end - start, dtype=np.uint8)
            reader.fill(words, start)
            assert words.tobytes() == data[start:end]
        assert reader.finish(len(data)) == digest_of_bytes(data)


def test_a_file_that_ends_early_is_told(tmp_path: Path) -> None:
    path = tmp_path / "cut"
    path.write_bytes(b"short")
    handle = os.open(path, os.O_RDONLY)
    try:
        reader = HashedReader(WholeFile(handle))
        with pytest.raises(WrongBytes):
            reader.fill(np.zeros(10, dtype=np.uint8), 0)
    finally:
        os.close(handle)
