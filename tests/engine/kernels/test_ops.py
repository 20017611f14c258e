"""Every backend computes what the reference computes, and the schemas tell the truth."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from loraplex.engine.kernels.ops import SCHEMAS, Backend, kernels
from tests.engine.kernels.cases import Sgmv, attention, sgmv

RANKS = (1, 4, 8, 12, 16, 24, 64, 128)
ROWS = (1, 15, 16, 17, 129)
REFERENCE = kernels(Backend.REFERENCE)
FAST = kernels()


def shrink_and_expand(case: Sgmv, ops: Any) -> tuple[Tensor, Tensor]:
    h = case.shrink(ops)
    return h, case.expand(ops, h)


def assert_same(case: Sgmv, atol: float = 2e-4) -> None:
    for fast, slow in zip(
        shrink_and_expand(case, FAST), shrink_and_expand(case, REFERENCE), strict=True
    ):
        torch.testing.assert_close(fast, slow, atol=atol, rtol=1e-4)


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("rows", ROWS)
def test_sgmv_agrees_with_the_reference_for_every_rank_and_row_count(rank: int, rows: int) -> None:
    assert_same(sgmv([(rank, rank, rank)], [(0, rows, 0)], rows))


def test_the_reference_is_a_dense_product() -> None:
    ranks, widths = (24, 0, 5), (40, 24, 24)
    case = sgmv([ranks], [(0, 9, 0)], 9, widths=widths)
    _, y = shrink_and_expand(case, REFERENCE)
    elements, in_features = case.pages.flatten(), case.x.shape[1]
    wanted, column = case.y.clone(), 0
    for index, (rank, width) in enumerate(zip(ranks, widths, strict=True)):
        a, b = torch.empty(0, in_features), torch.empty(0, width)
        for tile in range(-(-rank // case.tile_rank)):
            count = min(case.tile_rank, rank - tile * case.tile_rank)
            start = int(case.a_offsets[0, index, tile])
            a = torch.cat((a, elements[start : start + count * in_features].view(count, -1)))
            start = int(case.b_offsets[0, index, tile])
            b = torch.cat((b, elements[start : start + count * width].view(count, -1)))
        wanted[:, column : column + width] += case.scales[0, index] * (case.x @ a.T @ b)
        column += width
    torch.testing.assert_close(y, wanted, atol=1e-3, rtol=1e-4)


def test_mixed_ranks_absent_slices_and_base_rows_share_a_call() -> None:
    case = sgmv(
        [(4, 0, 24), (16, 16, 16), (0, 0, 1)],
        [(2, 5, 1), (5, 6, 0), (9, 9, 2), (10, 30, 2)],
        33,
    )
    assert_same(case)
    _, y = shrink_and_expand(case, FAST)
    for start, end in ((0, 2), (6, 10), (30, 33)):
        assert torch.equal(y[start:end], case.y[start:end]), "base rows get nothing"
    assert torch.equal(y[5:6, 40:64], case.y[5:6, 40:64]), "an absent slice gets nothing"


def test_one_adapter_may_have_two_segments() -> None:
    assert_same(sgmv([(8, 8, 8)], [(0, 3, 0), (5, 9, 0)], 9))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_weights_are_summed_in_float32(dtype: torch.dtype) -> None:
    case = sgmv([(24, 3, 16)], [(1, 17, 0)], 17, dtype=dtype)
    h, _ = shrink_and_expand(case, FAST)
    assert h.dtype == torch.float32
    assert_same(case, atol=0.3)


SEQUENCES = st.lists(
    st.tuples(st.integers(1, 12), st.integers(0, 40)).map(lambda s: (s[0], s[0] + s[1])),
    min_size=1,
    max_size=6,
)


@given(
    sequences=SEQUENCES,
    groups=st.sampled_from([(1, 1), (1, 3), (2, 4), (3, 9)]),
    window=st.sampled_from([0, 1, 3, 4, 9]),
)
def test_attention_agrees_with_the_reference_for_any_mix(
    sequences: list[tuple[int, int]], groups: tuple[int, int], window: int
) -> None:
    kv_heads, heads = groups
    case = attention(sequences, kv_heads=kv_heads, heads=heads, head_size=8, window=window)
    fast, slow = (case.attend(ops) for ops in (FAST, REFERENCE))
    torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("head_size", [64, 80, 128, 256])
def test_attention_serves_the_usual_head_sizes(head_size: int) -> None:
    case = attention([(1, 30), (1, 33), (9, 20), (7, 7)], head_size=head_size)
    fast, slow = (case.attend(ops) for ops in (FAST, REFERENCE))
    torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-5)


def test_what_lies_behind_a_sequence_does_not_reach_it() -> None:
    case = attention([(1, 5), (1, 30), (3, 6)], head_size=8)
    before = case.attend(FAST)
    rows = case.pages.view(-1, case.layers, case.block_tokens, 2, 2, 8)
    rows[case.block_tables[0, 1].long(), :, 1:] = 1e30
    assert torch.equal(case.attend(FAST), before)


def test_keys_and_values_are_written_where_the_slots_say() -> None:
    layers, block_tokens = 3, 4
    written = {}
    for backend in (None, Backend.REFERENCE):
        pages = torch.zeros(5, layers * block_tokens * 2 * 2 * 8)
        kv = torch.randn(3, 2, 2, 8, generator=torch.manual_seed(0))
        rows_a_page = layers * block_tokens
        slots = torch.tensor([4 * rows_a_page + 3, 0, 2 * rows_a_page + 1])
        kernels(backend).write_kv(kv, pages, slots, 2, layers, block_tokens)
        seen = pages.view(5, layers, block_tokens, 2, 2, 8)
        assert torch.equal(seen[[4, 0, 2], 2, [3, 0, 1]], kv)
        assert int((pages != 0).sum()) == kv.numel()
        written[backend] = pages
    assert torch.equal(written[None], written[Backend.REFERENCE])


def test_the_schemas_name_what_is_changed_in_place() -> None:
    case = sgmv([(4, 0, 8)], [(0, 3, 0)], 5)
    h = case.x.new_zeros(5, 3, case.tile_rank)
    seen = attention([(1, 5), (4, 6)], head_size=8)
    arguments: dict[str, tuple[Any, ...]] = {
        "sgmv_shrink": (
            case.x, case.pages, case.a_offsets, case.ranks, case.segments, case.tile_rank,
        ),
        "sgmv_expand": (
            case.y, h, case.pages, case.b_offsets, case.ranks, case.scales, case.segments,
            case.slice_starts, case.tile_rank,
        ),
        "write_kv": (
            torch.randn(2, 2, 2, 8), seen.pages, torch.tensor([0, 7]), 0, seen.layers,
            seen.block_tokens,
        ),
        "paged_attention": (
            seen.query, seen.pages, seen.block_tables, seen.query_starts, seen.context_tokens,
            0, seen.layers, seen.block_tokens, seen.kv_heads, 0.3, 0,
        ),
    }  # fmt: skip
    assert set(arguments) == set(SCHEMAS)
    for name, values in arguments.items():
        op = getattr(torch.ops.loraplex, name).default
        torch.library.opcheck(op, values, test_utils=("test_schema", "test_faketensor"))
