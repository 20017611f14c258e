"""The reader agrees with the gguf package's own, and never takes a broken file for a whole one."""

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.importing.errors import CorruptModelSource
from loraplex.engine.importing.gguf_file import read_gguf
from tests.engine.importing.tiny_gguf import random_weights, write_gguf


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_gguf(path, random_weights())
    return path


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q8_0"])
def test_metadata_and_bytes_are_those_the_gguf_package_reads(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(path, random_weights(), kind=GGMLQuantizationType[kind])

    ours, theirs = read_gguf(path), GGUFReader(path)

    fields = {
        key: field.contents() for key, field in theirs.fields.items() if not key.startswith("GGUF.")
    }
    assert ours.metadata == fields
    assert set(ours.tensors) == {tensor.name for tensor in theirs.tensors}
    for tensor in theirs.tensors:
        read = ours.tensors[tensor.name]
        assert read.shape == tuple(reversed(tensor.shape.tolist()))
        assert read.type_code == tensor.tensor_type
        assert bytes(read.rows) == bytes(np.ascontiguousarray(tensor.data))


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.gguf").touch()

    with pytest.raises(CorruptModelSource, match=r"empty\.gguf"):
        read_gguf(tmp_path / "empty.gguf")


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"PK\x03\x04" * 100)

    with pytest.raises(CorruptModelSource, match="does not begin with GGUF"):
        read_gguf(tmp_path / "model.gguf")


@given(data=st.data())
def test_a_file_cut_anywhere_is_refused(
    tiny: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = tiny.read_bytes()
    # The writer pads the last tensor, so the file may lose that padding and still be whole.
    last_byte = len(whole) - 64
    length = data.draw(st.integers(1, last_byte))
    cut = tmp_path_factory.getbasetemp() / "cut.gguf"
    cut.write_bytes(whole[:length])

    with pytest.raises(CorruptModelSource):
        read_gguf(cut)


@given(st.binary(min_size=1, max_size=200))
def test_random_bytes_after_the_magic_are_refused_or_read_but_never_crash(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "noise.gguf"
    path.write_bytes(b"GGUF\x03\x00\x00\x00" + noise)

    try:
        read_gguf(path)
    except CorruptModelSource:
        return
    assert noise[:16] == bytes(16), "only a file that declares nothing can be whole"
