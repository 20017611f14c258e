"""paged_attention: softmax(scale · q · Kᵀ) · V over a sequence's pages, chunks and decodes alike.

A program takes a few tokens of one sequence with all query heads of one key-value head, so that
keys are read once for the group. Programs find their sequence themselves: their number depends on
shapes only. Where there are few of them, each reads a part of the context, and a second kernel
joins the parts (flash decoding). Running softmax after FlashAttention-2 (arXiv 2307.08691).
"""

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from loraplex.engine.kernels.triton.launch import Launch, compute_dtype, power_of_two
from loraplex.engine.kernels.triton.tiles import attention_tiles

_SEQUENCES_A_LOAD: Final = 128


# What changes from step to step or layer to layer must not make Triton compile anew.
@triton.jit(do_not_specialize=["layer", "sequences", "tables_row", "output_part", "log_sums_part"])
def attention_kernel(
    output,
    log_sums,
    query,
    pages,
    block_tables,
    query_starts,
    context_tokens,
    sequences,
    layer,
    layers,
    log2_scale,
    window,
    query_row,
    tables_row,
    output_part,
    log_sums_part,
    GROUP: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK_QUERIES: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    BLOCK_HEAD: tl.constexpr,
    SEQUENCES_A_LOAD: tl.constexpr,
    COMPUTE: tl.constexpr,
):
    TOKENS: tl.constexpr = BLOCK_QUERIES // GROUP
    kv_head = tl.program_id(1)
    sequence, first_token = _place(
        query_starts, sequences, tl.program_id(0), TOKENS, SEQUENCES_A_LOAD
    )
    start = tl.load(query_starts + sequence)
    tokens = tl.load(query_starts + sequence + 1) - start
    if first_token >= tokens:
        return
    context = tl.load(context_tokens + sequence)

    lanes = tl.arange(0, BLOCK_QUERIES)
    token = first_token + lanes // GROUP
    is_query = (lanes < TOKENS * GROUP) & (token < tokens)
    positions = context - tokens + token
    row = start + token
    head = kv_head * GROUP + lanes % GROUP
    place = tl.arange(0, BLOCK_HEAD)
    is_place = place < HEAD_SIZE
    is_value = is_query[:, None] & is_place[None, :]
    q_block = query + row.to(tl.int64)[:, None] * query_row + head[:, None] * HEAD_SIZE
    q_block += place[None, :]
    q = tl.load(q_block, mask=is_value, other=0.0).to(COMPUTE)

    # The keys that any row sees, in whole blocks; this program reads its part of them.
    end_key = tl.minimum(context - tokens + first_token + TOKENS, context)
    first_key = 0
    if HAS_WINDOW:
        first_key = tl.maximum(context - tokens + first_token - window + 1, 0)
        first_key = first_key // BLOCK_KEYS * BLOCK_KEYS
    if PARTS > 1:
        blocks = tl.cdiv(tl.maximum(end_key - first_key, 0), BLOCK_KEYS)
        keys_a_part = tl.cdiv(blocks, PARTS) * BLOCK_KEYS
        first_key += tl.program_id(2) * keys_a_part
        end_key = tl.minimum(end_key, first_key + keys_a_part)

    largest = tl.full((BLOCK_QUERIES,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_QUERIES,), dtype=tl.float32)
    weighted = tl.zeros((BLOCK_QUERIES, BLOCK_HEAD), dtype=tl.float32)
    table = block_tables + sequence.to(tl.int64) * tables_row
    for key in range(first_key, end_key, BLOCK_KEYS):
        keys = key + tl.arange(0, BLOCK_KEYS)
        is_key = keys < end_key
        page = tl.load(table + keys // BLOCK_TOKENS, mask=is_key, other=0).to(tl.int64)
        kv_row = (page * layers + layer) * BLOCK_TOKENS + keys % BLOCK_TOKENS
        k_row = pages + kv_row * (2 * KV_HEADS * HEAD_SIZE) + kv_head * HEAD_SIZE
        k = tl.load(
            k_row[None, :] + place[:, None], mask=is_place[:, None] & is_key[None, :], other=0.0
        )
        scores = tl.dot(q, k.to(COMPUTE), input_precision="tf32x3") * log2_scale
        is_seen = keys[None, :] <= positions[:, None]
        if HAS_WINDOW:
            is_seen &= keys[None, :] > positions[:, None] - window
        scores = tl.where(is_seen & is_key[None, :], scores, float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, 1))
        # A row that has seen nothing yet must not subtract infinity from infinity.
        shift = tl.where(larger == float("-inf"), 0.0, larger)
        weights = tl.exp2(scores - shift[:, None])
        decay = tl.exp2(largest - shift)
        total = total * decay + tl.sum(weights, 1)
        v = tl.load(
            k_row[:, None] + KV_HEADS * HEAD_SIZE + place[None, :],
            mask=is_key[:, None] & is_place[None, :],
            other=0.0,
        )
        weighted = tl.dot(
            weights.to(COMPUTE),
            v.to(COMPUTE),
            acc=weighted * decay[:, None],
            input_precision="tf32x3",
        )
        largest = larger

    total = tl.where(total == 0.0, 1.0, total)
    result = weighted / total[:, None]
    head_row = row.to(tl.int64) * (KV_HEADS * GROUP) + head
    out_block = output + head_row[:, None] * HEAD_SIZE + place[None, :]
    if PARTS > 1:
        part = tl.program_id(2).to(tl.int64)
        out_block += part * output_part
        # log2 of the sum of all weights, unshifted: -inf, as `largest` is, where nothing was seen.
        tl.store(
            log_sums + part * log_sums_part + head_row, largest + tl.log2(total), mask=is_query
        )
    tl.store(out_block, result.to(output.dtype.element_ty), mask=is_value)


@triton.jit
def _place(
    query_starts,
    sequences,
    block,
    TOKENS: tl.constexpr,
    SEQUENCES_A_LOAD: tl.constexpr,
):
    """The sequence that has this block of tokens, and the block's first token.

    Sequence s owns blocks from query_starts[s] // TOKENS + s: enough for all its tokens wherever
    they start, so some blocks have none. The last sequence to start at or before `block` owns it.
    """
    begun = 0
    for first in range(0, sequences, SEQUENCES_A_LOAD):
        numbers = first + tl.arange(0, SEQUENCES_A_LOAD)
        is_sequence = numbers < sequences
        starts = tl.load(query_starts + numbers, mask=is_sequence, other=0)
        begun += tl.sum((is_sequence & (starts // TOKENS + numbers <= block)).to(tl.int32), 0)
    sequence = begun - 1
    first_block = tl.load(query_starts + sequence) // TOKENS + sequence
    return sequence, (block - first_block) * TOKENS


@triton.jit(do_not_specialize=["output_part", "log_sums_part"])
def join_kernel(
    output,
    parts,
    log_sums,
    output_part,
    log_sums_part,
    HEAD_SIZE: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK_HEAD: tl.constexpr,
):
    """One row and head: the parts' results, weighted by their sums of weights, in order."""
    head_row = tl.program_id(0).to(tl.int64)
    part = tl.arange(0, PARTS).to(tl.int64)
    log_sum = tl.load(log_sums + part * log_sums_part + head_row)
    largest = tl.max(log_sum, 0)
    weights = tl.exp2(log_sum - tl.where(largest == float("-inf"), 0.0, largest))
    total = tl.sum(weights, 0)
    place = tl.arange(0, BLOCK_HEAD)
    is_place = place < HEAD_SIZE
    values = tl.load(
        parts + part[:, None] * output_part + head_row * HEAD_SIZE + place[None, :],
        mask=is_place[None, :],
        other=0.0,
    )
    result = tl.sum(values * weights[:, None], 0) / tl.where(total == 0.0, 1.0, total)
    target = output + head_row * HEAD_SIZE + place
    tl.store(target, result.to(output.dtype.element_ty), mask=is_place)


def attention_launches(
    query: Tensor,
    pages: Tensor,
    block_tables: Tensor,
    query_starts: Tensor,
    context_tokens: Tensor,
    layer: int,
    layers: int,
    block_tokens: int,
    kv_heads: int,
    scale: float,
    window: int,
) -> tuple[list[Launch], Tensor]:
    """The launches, in order, and the output they fill."""
    rows, heads, head_size = query.shape
    sequences, blocks = block_tables.shape
    group = heads // kv_heads
    choice = attention_tiles(
        rows, sequences, blocks * block_tokens, kv_heads, group, head_size, query.element_size()
    )
    output = torch.empty_like(query, memory_format=torch.contiguous_format)
    parts, log_sums = output[None], output.new_empty((1, 1), dtype=torch.float32)
    if choice.parts > 1:
        parts = output.new_empty((choice.parts, *output.shape), dtype=torch.float32)
        log_sums = output.new_empty((choice.parts, rows * heads), dtype=torch.float32)
    assert query.stride()[1:] == (head_size, 1), "a row's heads must lie side by side"
    assert block_tables.stride(1) == 1
    tokens = choice.queries // group
    head_block = power_of_two(head_size)
    attend = Launch(
        attention_kernel,
        (rows // tokens + sequences if rows else 0, kv_heads, choice.parts),
        {
            "output": parts,
            "log_sums": log_sums,
            "query": query,
            "pages": pages,
            "block_tables": block_tables,
            "query_starts": query_starts,
            "context_tokens": context_tokens,
            "sequences": sequences,
            "layer": layer,
            "layers": layers,
            "log2_scale": scale * _LOG2_E,
            "window": window,
            "query_row": query.stride(0),
            "tables_row": block_tables.stride(0),
            "output_part": parts.stride(0),
            "log_sums_part": log_sums.stride(0),
            "GROUP": group,
            "KV_HEADS": kv_heads,
            "HEAD_SIZE": head_size,
            "BLOCK_TOKENS": block_tokens,
            "HAS_WINDOW": window > 0,
            "PARTS": choice.parts,
            "BLOCK_QUERIES": choice.queries,
            "BLOCK_KEYS": choice.keys,
            "BLOCK_HEAD": head_block,
            "SEQUENCES_A_LOAD": _SEQUENCES_A_LOAD,
            "COMPUTE": compute_dtype(query.dtype),
        },
        choice.warps,
        choice.stages,
        choice.registers,
    )
    if choice.parts == 1:
        return [attend], output
    join = Launch(
        join_kernel,
        (rows * heads, 1, 1),
        {
            "output": output,
            "parts": parts,
            "log_sums": log_sums,
            "output_part": parts.stride(0),
            "log_sums_part": log_sums.stride(0),
            "HEAD_SIZE": head_size,
            "PARTS": choice.parts,
            "BLOCK_HEAD": head_block,
        },
        warps=4,
        stages=1,
    )
    return [attend, join], output


_LOG2_E: Final = 1.4426950408889634
