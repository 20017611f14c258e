"""paged_attention in Triton's interpreter against the reference: heads, windows, mixes, graphs."""

from dataclasses import replace
from itertools import product

import pytest
import torch

from loraplex.engine.kernels.ops import Backend, kernels
from tests.engine.kernels.cases import Attention, attention
from tests.engine.kernels.triton.grid import cells

TRITON, REFERENCE = kernels(Backend.TRITON), kernels(Backend.REFERENCE)
HEAD_SIZES = (64, 80, 96, 112, 128, 256)
MIXES = {
    "decodes": [(1, 30), (1, 1), (1, 64), (1, 33)],
    "decodes in parts": [(1, 33), (1, 530)],
    "one chunk": [(37, 37)],
    "chunks and decodes": [(1, 30), (9, 20), (1, 65), (21, 70), (7, 7)],
    "neutral sequences": [(1, 5), (1, 0), (3, 40), (0, 0), (0, 0)],
}
GROUPS = {"1 of 1": (1, 1), "2 of 1": (2, 4), "3 of 1": (2, 6), "17 of 1": (1, 17)}
TOLERANCES = {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}
CELLS = cells(
    product(HEAD_SIZES, MIXES),
    list(product((torch.float32, torch.float16, torch.bfloat16), (0, 1, 9, 40))),
    list(GROUPS),
)


@pytest.mark.parametrize(("head_size", "mix", "dtype", "window", "group"), CELLS)
def test_attention(head_size: int, mix: str, dtype: torch.dtype, window: int, group: str) -> None:
    kv_heads, heads = GROUPS[group]
    case = attention(
        MIXES[mix], kv_heads=kv_heads, heads=heads, head_size=head_size, window=window, dtype=dtype,
        block_tokens=16 if heads % 2 else 4, seed=head_size,
    )  # fmt: skip
    assert_agrees(case)


def assert_agrees(case: Attention) -> None:
    dtype = case.query.dtype
    wide = replace(case, query=case.query.float(), pages=case.pages.float())
    expected = wide.attend(REFERENCE)
    attended = case.attend(TRITON)
    assert attended.dtype == dtype
    torch.testing.assert_close(
        attended.float(), expected, atol=TOLERANCES[dtype], rtol=TOLERANCES[dtype]
    )


def test_rows_of_a_sequence_without_context_become_zero() -> None:
    case = attention([(1, 5), (1, 0), (1, 0)])
    assert torch.equal(case.attend(TRITON)[1:], torch.zeros(2, 4, 64))


def test_wider_block_tables_change_only_how_the_context_is_divided() -> None:
    sequences = [(1, 30), (1, 5), (1, 61)]
    narrow = attention(sequences)
    wide = attention(sequences, spare_blocks=600)
    torch.testing.assert_close(narrow.attend(TRITON), wide.attend(TRITON), atol=1e-6, rtol=1e-5)


def test_more_sequences_than_one_load_find_their_rows() -> None:
    assert_agrees(attention([(place % 3, 1 + place % 7 + 2) for place in range(150)], heads=2))
