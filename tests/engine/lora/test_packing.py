"""Packing puts every element of a file where the tables point, whatever the dtypes and ranks."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.lora.packing import AdapterFile
from loraplex.engine.protocol.errors import AdapterUnavailable
from tests.engine.lora.files import (
    PAGE_ELEMENTS,
    PATHS,
    adapter_file,
    random_tensors,
    unpacked,
)

RANKS = st.dictionaries(st.sampled_from(PATHS), st.integers(1, 40), min_size=1)
DTYPES = st.sampled_from([torch.float32, torch.float16, torch.bfloat16])


@given(RANKS, DTYPES, DTYPES)
def test_a_page_holds_what_the_file_held(
    ranks: dict[str, int], stored: torch.dtype, wanted: torch.dtype
) -> None:
    tensors = random_tensors(ranks, stored)
    with adapter_file(tensors) as file:
        places = [torch.zeros(PAGE_ELEMENTS, dtype=wanted) for _ in range(file.layout.pages)]
        file.pack(places)
    for path, (a, b) in unpacked(file, torch.stack(places)).items():
        torch.testing.assert_close(a, tensors[path][0].to(wanted), atol=0, rtol=0)
        torch.testing.assert_close(b, tensors[path][1].to(wanted), atol=0, rtol=0)


@given(RANKS, st.integers(1, 4))
def test_pages_packed_in_parts_are_those_packed_at_once(ranks: dict[str, int], part: int) -> None:
    with adapter_file(random_tensors(ranks, torch.float32)) as file:
        whole = torch.zeros(file.layout.pages, PAGE_ELEMENTS)
        file.pack(list(whole))
        parts = torch.zeros(file.layout.pages, PAGE_ELEMENTS)
        for first in range(0, len(parts), part):
            file.pack(list(parts[first : first + part]), first)
    assert torch.equal(whole, parts)


def test_a_file_of_another_size_is_refused(tmp_path: Path) -> None:
    with adapter_file(random_tensors({PATHS[0]: 4}, torch.float32)) as file:
        places = [torch.zeros(PAGE_ELEMENTS) for _ in range(file.layout.pages)]
        shorter = tmp_path / "shorter"
        shorter.write_bytes(file.path.read_bytes()[:-1])
        with pytest.raises(AdapterUnavailable, match="bytes instead of"):
            AdapterFile(file.spec, file.layout, shorter).pack(places)


def test_a_tensor_that_reaches_past_the_file_is_refused() -> None:
    with adapter_file(random_tensors({PATHS[0]: 4}, torch.float32), shift_bytes=8) as file:
        places = [torch.zeros(PAGE_ELEMENTS) for _ in range(file.layout.pages)]
        with pytest.raises(AdapterUnavailable, match="ended before its last tensor"):
            file.pack(places)


def test_a_tensor_whose_bytes_are_not_its_shape_is_refused() -> None:
    with adapter_file(random_tensors({PATHS[0]: 4}, torch.float32), extra_bytes=4) as file:
        places = [torch.zeros(PAGE_ELEMENTS) for _ in range(file.layout.pages)]
        with pytest.raises(AdapterUnavailable, match="does not fill its bytes"):
            file.pack(places)
