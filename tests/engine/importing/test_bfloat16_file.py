"""Float32 becomes bfloat16 as torch rounds it, in a file that safetensors reads."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from loraplex.engine.importing.bfloat16_file import Bfloat16File, round_to_bfloat16
from loraplex.engine.importing.errors import CorruptModelSource

# Above this a float32 rounds to infinity in bfloat16, which no weight does.
LARGEST = float(np.float32(3.38e38))


@given(st.lists(st.floats(-LARGEST, LARGEST, width=32), min_size=1, max_size=50))
def test_rounding_agrees_with_torch(values: list[float]) -> None:
    rounded = round_to_bfloat16(np.array(values, dtype=np.float32))

    expected = torch.tensor(values, dtype=torch.float32).to(torch.bfloat16)
    assert torch.equal(torch.from_numpy(rounded).view(torch.bfloat16), expected)


def test_a_tie_goes_to_the_even_neighbour() -> None:
    ties = np.array([0x3F808000, 0x3F818000], dtype=np.uint32).view(np.float32)

    assert round_to_bfloat16(ties).tolist() == [0x3F80, 0x3F82]


def test_safetensors_reads_what_was_streamed_in_chunks(tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    file = Bfloat16File(tmp_path / "model.safetensors", {"a": (4, 3), "b": (3,)})

    written = [
        *file.write("a", iter([values[:3], values[3:]])),
        *file.write("b", iter([values[0]])),
    ]
    file.close()

    assert written == [18, 6, 6]
    assert sum(written) == file.total_bytes
    with safe_open(tmp_path / "model.safetensors", framework="pt") as read:
        assert read.get_tensor("a").tolist() == values.tolist()
        assert read.get_tensor("b").tolist() == values[0].tolist()
        assert read.get_tensor("a").dtype == torch.bfloat16


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_is_refused_by_its_tensors_name(
    tmp_path: Path, value: float
) -> None:
    file = Bfloat16File(tmp_path / "model.safetensors", {"model.norm.weight": (1,)})

    with pytest.raises(CorruptModelSource, match=r"model\.norm\.weight"):
        list(file.write("model.norm.weight", iter([np.array([value], dtype=np.float32)])))
    file.close()
