"""Every backend computes what the reference computes, and the schemas tell the truth."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from loraplex.engine.kernels.ops import SCHEMAS, Backend, kernels

RANKS = (1, 4, 8, 12, 16, 24, 64, 128)
ROWS = (1, 15, 16, 17, 129)
TILE_RANK = 16
WIDTHS = (40, 24, 24)
IN_FEATURES = 56
PAGE_ELEMENTS = 2048
REFERENCE = kernels(Backend.REFERENCE)
FAST = kernels()


@dataclass
class Sgmv:
    """Adapters of the given ranks in scattered tiles, and rows cut into segments."""

    pages: Tensor
    a_offsets: Tensor
    b_offsets: Tensor
    ranks: Tensor
    scales: Tensor
    segments: Tensor
    x: Tensor
    y: Tensor


def sgmv(
    ranks: list[tuple[int, int, int]],
    segments: list[tuple[int, int, int]],
    rows: int,
    dtype: torch.dtype = torch.float32,
) -> Sgmv:
    generator = torch.Generator().manual_seed(7)
    tiles = max(1, max(-(-rank // TILE_RANK) for adapter in ranks for rank in adapter))
    shape = (len(ranks), len(WIDTHS), tiles)
    places = iter(torch.randperm(len(ranks) * len(WIDTHS) * tiles * 2, generator=generator))
    a_offsets, b_offsets = torch.full(shape, -1), torch.full(shape, -1)
    for adapter, of_adapter in enumerate(ranks):
        for index, rank in enumerate(of_adapter):
            for tile in range(-(-rank // TILE_RANK)):
                a_offsets[adapter, index, tile] = next(places) * PAGE_ELEMENTS
                b_offsets[adapter, index, tile] = next(places) * PAGE_ELEMENTS + 3
    pages = torch.randn(
        len(ranks) * len(WIDTHS) * tiles * 2 + 1, PAGE_ELEMENTS, generator=generator
    )
    return Sgmv(
        pages=pages.to(dtype),
        a_offsets=a_offsets,
        b_offsets=b_offsets,
        ranks=torch.tensor(ranks, dtype=torch.int32),
        scales=torch.rand(len(ranks), len(WIDTHS), generator=generator),
        segments=torch.tensor(segments, dtype=torch.int32).view(-1, 3),
        x=torch.randn(rows, IN_FEATURES, generator=generator).to(dtype),
        y=torch.randn(rows, sum(WIDTHS), generator=generator).to(dtype),
    )


def shrink_and_expand(case: Sgmv, ops: Any) -> tuple[Tensor, Tensor]:
    y = case.y.clone()
    h = ops.sgmv_shrink(case.x, case.pages, case.a_offsets, case.ranks, case.segments, TILE_RANK)
    starts = [0, WIDTHS[0], WIDTHS[0] + WIDTHS[1], sum(WIDTHS)]
    ops.sgmv_expand(
        y,
        h,
        case.pages,
        case.b_offsets,
        case.ranks,
        case.scales,
        case.segments,
        starts,
        TILE_RANK,
    )
    return h, y


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
    case = sgmv([(24, 0, 5)], [(0, 9, 0)], 9)
    _, y = shrink_and_expand(case, REFERENCE)
    elements = case.pages.flatten()
    wanted, column = case.y.clone(), 0
    for index, (rank, width) in enumerate(zip((24, 0, 5), WIDTHS, strict=True)):
        a, b = torch.empty(0, IN_FEATURES), torch.empty(0, width)
        for tile in range(-(-rank // TILE_RANK)):
            count = min(TILE_RANK, rank - tile * TILE_RANK)
            start = int(case.a_offsets[0, index, tile])
            a = torch.cat((a, elements[start : start + count * IN_FEATURES].view(count, -1)))
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
    case = sgmv([(24, 3, 16)], [(1, 17, 0)], 17, dtype)
    h, _ = shrink_and_expand(case, FAST)
    assert h.dtype == torch.float32
    assert_same(case, atol=0.3)


@dataclass
class Attention:
    query: Tensor
    pages: Tensor
    block_tables: Tensor
    query_starts: Tensor
    context_tokens: Tensor


LAYERS, BLOCK_TOKENS = 3, 4


def attention(
    sequences: list[tuple[int, int]], kv_heads: int, heads: int, head_size: int
) -> Attention:
    """Sequences of (new tokens, context tokens) in scattered pages."""
    generator = torch.Generator().manual_seed(3)
    blocks = [-(-context // BLOCK_TOKENS) for _, context in sequences]
    pages = torch.randn(
        sum(blocks) + 1, LAYERS * BLOCK_TOKENS * 2 * kv_heads * head_size, generator=generator
    )
    order = torch.randperm(sum(blocks) + 1, generator=generator)
    tables = torch.empty(len(sequences), max(blocks), dtype=torch.int32)
    start = 0
    for row, count in zip(tables, blocks, strict=True):
        row[:count] = order[start : start + count]
        row[count:] = row[0]
        start += count
    starts = torch.tensor([0, *(new for new, _ in sequences)]).cumsum(0)
    return Attention(
        query=torch.randn(int(starts[-1]), heads, head_size, generator=generator),
        pages=pages,
        block_tables=tables,
        query_starts=starts.int(),
        context_tokens=torch.tensor([context for _, context in sequences], dtype=torch.int32),
    )


def attend(case: Attention, ops: Any, kv_heads: int, window: int, layer: int = 1) -> Tensor:
    result: Tensor = ops.paged_attention(
        case.query,
        case.pages,
        case.block_tables,
        case.query_starts,
        case.context_tokens,
        layer,
        LAYERS,
        BLOCK_TOKENS,
        kv_heads,
        case.query.shape[-1] ** -0.5,
        window,
    )
    return result


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
    case = attention(sequences, kv_heads, heads, 8)
    fast, slow = (attend(case, ops, kv_heads, window) for ops in (FAST, REFERENCE))
    torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("head_size", [64, 80, 128, 256])
def test_attention_serves_the_usual_head_sizes(head_size: int) -> None:
    case = attention([(1, 30), (1, 33), (9, 20), (7, 7)], 2, 4, head_size)
    fast, slow = (attend(case, ops, 2, 0) for ops in (FAST, REFERENCE))
    torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-5)


def test_what_lies_behind_a_sequence_does_not_reach_it() -> None:
    case = attention([(1, 5), (1, 30), (3, 6)], 2, 4, 8)
    before = attend(case, FAST, 2, 0)
    rows = case.pages.view(-1, LAYERS, BLOCK_TOKENS, 2, 2, 8)
    rows[case.block_tables[0, 1].long(), :, 1:] = 1e30
    assert torch.equal(attend(case, FAST, 2, 0), before)


def test_keys_and_values_are_written_where_the_slots_say() -> None:
    written = {}
    for backend in (None, Backend.REFERENCE):
        pages = torch.zeros(5, LAYERS * BLOCK_TOKENS * 2 * 2 * 8)
        kv = torch.randn(3, 2, 2, 8, generator=torch.manual_seed(0))
        rows_a_page = LAYERS * BLOCK_TOKENS
        slots = torch.tensor([4 * rows_a_page + 3, 0, 2 * rows_a_page + 1])
        kernels(backend).write_kv(kv, pages, slots, 2, LAYERS, BLOCK_TOKENS)
        seen = pages.view(5, LAYERS, BLOCK_TOKENS, 2, 2, 8)
        assert torch.equal(seen[[4, 0, 2], 2, [3, 0, 1]], kv)
        assert int((pages != 0).sum()) == kv.numel()
        written[backend] = pages
    assert torch.equal(written[None], written[Backend.REFERENCE])


def test_the_schemas_name_what_is_changed_in_place() -> None:
    case = sgmv([(4, 0, 8)], [(0, 3, 0)], 5)
    h = case.x.new_zeros(5, 3, TILE_RANK)
    starts = [0, 40, 64, 88]
    seen = attention([(1, 5), (4, 6)], 2, 4, 8)
    arguments: dict[str, tuple[Any, ...]] = {
        "sgmv_shrink": (
            case.x, case.pages, case.a_offsets, case.ranks, case.segments, TILE_RANK,
        ),
        "sgmv_expand": (
            case.y, h, case.pages, case.b_offsets, case.ranks, case.scales, case.segments,
            starts, TILE_RANK,
        ),
        "write_kv": (
            torch.randn(2, 2, 2, 8), seen.pages, torch.tensor([0, 7]), 0, LAYERS, BLOCK_TOKENS,
        ),
        "paged_attention": (
            seen.query, seen.pages, seen.block_tables, seen.query_starts, seen.context_tokens,
            0, LAYERS, BLOCK_TOKENS, 2, 0.3, 0,
        ),
    }  # fmt: skip
    assert set(arguments) == set(SCHEMAS)
    for name, values in arguments.items():
        op = getattr(torch.ops.loraplex, name).default
        torch.library.opcheck(op, values, test_utils=("test_schema", "test_faketensor"))
