"""The C++ kernels compute what torch does, a row with the same bits in whatever company."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import linear

from loraplex.engine.kernels import fused
from loraplex.engine.kernels.native.library import Library, library
from loraplex.engine.kernels.native.panels import PackedWeight, adapters_of
from loraplex.engine.kernels.ops import Backend, kernels
from tests.engine.kernels.cases import attention, sgmv

REFERENCE = kernels(Backend.REFERENCE)
NATIVE = kernels(Backend.NATIVE)


@pytest.fixture(scope="module", autouse=True)
def compiled() -> Library:
    """These tests need a compiler; the platform does not."""
    found = library()
    if found is None:
        pytest.skip("no C++ compiler on this machine")
    return found


def packed(weight: Tensor) -> PackedWeight:
    found = library()
    assert found is not None
    return PackedWeight(found, weight)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


FEATURES = st.one_of(st.integers(1, 40), st.sampled_from([191, 192, 193, 288, 290, 600]))


@given(
    rows=st.sampled_from([1, 2, 3, 4, 5, 16, 31, 33, 97, 130]),
    in_features=FEATURES,
    out_features=st.sampled_from([1, 7, 23, 24, 25, 48, 100]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    has_bias=st.booleans(),
)
def test_a_packed_weight_multiplies_as_torch_does(
    rows: int, in_features: int, out_features: int, dtype: torch.dtype, has_bias: bool
) -> None:
    weight = random(out_features, in_features, seed=1).to(dtype)
    bias = random(out_features, seed=2) if has_bias else None
    x = random(rows, in_features)
    y = packed(weight).multiply(x, bias)
    torch.testing.assert_close(y, linear(x, weight.float(), bias), atol=2e-4, rtol=1e-5)


@given(
    rows=st.integers(2, 140),
    row=st.integers(0, 139),
    in_features=FEATURES,
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_a_row_has_the_same_bits_alone_and_in_any_batch(
    rows: int, row: int, in_features: int, dtype: torch.dtype
) -> None:
    weight = packed(random(50, in_features, seed=1).to(dtype))
    x = random(rows, in_features)
    row %= rows
    assert torch.equal(weight.multiply(x)[row], weight.multiply(x[row : row + 1])[0])


def test_an_embedding_reads_rows_of_the_packed_weight() -> None:
    for in_features in (8, 9):
        for dtype in (torch.float32, torch.bfloat16):
            weight = random(50, in_features).to(dtype)
            numbers = torch.tensor([0, 49, 24, 23, 24])
            assert torch.equal(packed(weight).rows(numbers), weight[numbers].float())


def test_no_rows_are_no_work() -> None:
    assert packed(random(5, 8)).multiply(torch.empty(0, 8)).shape == (0, 5)


@st.composite
def adapted_cases(draw: st.DrawFn) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    """Ranks of adapters, and segments with base rows between them."""
    ranks = st.sampled_from([0, 1, 3, 4, 8, 16, 24, 40])
    adapters = draw(st.lists(st.tuples(ranks, ranks, ranks), min_size=1, max_size=5))
    segments, row = [], 0
    for _ in range(draw(st.integers(1, 8))):
        row += draw(st.integers(0, 2))
        end = row + draw(st.sampled_from([0, 1, 2, 3, 5, 50]))
        segments.append((row, end, draw(st.integers(0, len(adapters) - 1))))
        row = end
    return adapters, segments


@given(adapted_cases())
def test_a_linear_with_lora_has_the_bits_of_product_shrink_and_expand(
    drawn: tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]],
) -> None:
    adapters, segments = drawn
    rows = segments[-1][1] + 1
    case = sgmv(adapters, segments, rows)
    weight = packed(random(case.y.shape[1], case.x.shape[1], seed=5).bfloat16())
    found = adapters_of(
        case.a_offsets,
        case.b_offsets,
        case.ranks,
        case.scales,
        case.segments,
        case.tile_rank,
        case.pages,
    )
    assert found is not None
    at_once = weight.multiply_adapted(case.x, None, found, 0, tuple(case.slice_starts))
    case.y = weight.multiply(case.x)
    one_by_one = case.expand(NATIVE, case.shrink(NATIVE))
    assert torch.equal(at_once, one_by_one)


@given(
    context=st.integers(1, 200),
    cuts=st.sets(st.integers(1, 199), max_size=4),
    window=st.sampled_from([0, 1, 5, 64, 100]),
    groups=st.sampled_from([(1, 1), (1, 3), (2, 4), (3, 9)]),
)
def test_attention_gives_a_row_the_same_bits_however_its_prompt_is_cut(
    context: int, cuts: set[int], window: int, groups: tuple[int, int]
) -> None:
    kv_heads, heads = groups
    whole = attention(
        [(context, context)], kv_heads=kv_heads, heads=heads, head_size=8, window=window
    )
    wanted = whole.attend(NATIVE)
    for start, end in pairwise([0, *sorted(cut for cut in cuts if cut < context), context]):
        chunk = replace(
            whole,
            query=whole.query[start:end],
            query_starts=torch.tensor([0, end - start], dtype=torch.int32),
            context_tokens=torch.tensor([end], dtype=torch.int32),
        )
        assert torch.equal(chunk.attend(NATIVE), wanted[start:end])


@pytest.mark.parametrize("window", [0, 70])
def test_attention_over_long_contexts_agrees_with_the_reference(window: int) -> None:
    case = attention([(1, 300), (40, 270), (1, 64), (65, 65), (1, 1)], heads=6, window=window)
    fast, slow = (case.attend(ops) for ops in (NATIVE, REFERENCE))
    torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-5)


def test_a_number_that_is_none_reaches_its_own_row_only() -> None:
    case = attention([(1, 40), (1, 50)], head_size=8)
    rows = case.pages.view(-1, case.layers, case.block_tokens, 2, 2, 8)
    rows[case.block_tables[0, 0].long(), :, 1] = float("nan")
    seen = case.attend(NATIVE)
    assert seen[0].isnan().all()
    assert seen[1].isfinite().all()


@pytest.mark.parametrize("size", [5, 8, 576])
@pytest.mark.parametrize("rows", [1, 3, 200])
def test_the_ops_between_linears_compute_what_torch_composes(rows: int, size: int) -> None:
    hidden, delta, weight = random(rows, size), random(rows, size, seed=1), random(size, seed=2)
    for change in (None, delta):
        fast, slow = hidden.clone(), hidden.clone()
        torch.testing.assert_close(
            fused.add_norm(fast, change, weight, 1e-5),
            fused.COMPOSED["add_norm"](slow, change, weight, 1e-5),
        )
        assert torch.equal(fast, slow)
    gate_up = random(rows, 2 * size) * 30
    torch.testing.assert_close(fused.gate(gate_up), fused.COMPOSED["gate"](gate_up))


@pytest.mark.parametrize("has_norm", [False, True])
def test_queries_are_rotated_and_keys_written(has_norm: bool) -> None:
    heads, kv_heads, size, rows = 4, 2, 8, 5
    norm = random(heads + kv_heads, size, seed=3) if has_norm else None
    qkv = random(rows, (heads + 2 * kv_heads) * size)
    angles = random(rows, size // 2, seed=4)
    slots = torch.tensor([7, 0, -1, 25, 12])
    results: list[tuple[Any, Tensor]] = []
    for op in (fused.rotate_and_write_kv, fused.COMPOSED["rotate_and_write_kv"]):
        pages = torch.zeros(3, 3 * 4 * 2 * kv_heads * size)
        query = op(
            qkv, angles.cos(), angles.sin(), norm, 1e-5, pages, slots, heads, kv_heads, 1, 3, 4
        )
        results.append((query, pages))
    torch.testing.assert_close(results[0], results[1])
