"""How large a piece of an op one program computes: from tensor shapes alone, never from values.

So a launch needs nothing from the device, and can be captured in a graph.
"""

from dataclasses import dataclass
from typing import Final

FEW_ROWS: Final = 16
"""Rows of a program where segments are short: the least that a tensor core multiplies."""

MANY_ROWS: Final = 64
"""Rows of a program where segments are long; segments are cut to so many."""

ALL_REGISTERS: Final = 255
"""As many as a thread can name."""


@dataclass(frozen=True)
class ShrinkTiles:
    """A program sums `features` at a time for `rows` x `ranks`, one of `splits` parts of all."""

    rows: int
    ranks: int
    features: int
    splits: int
    warps: int
    stages: int
    registers: int | None

    def features_a_split(self, in_features: int) -> int:
        """A multiple of `features`; the last parts may be short or empty."""
        blocks = -(-in_features // self.features)
        return -(-blocks // self.splits) * self.features


@dataclass(frozen=True)
class ExpandTiles:
    """A program adds to `rows` x `columns`, `ranks` at a time."""

    rows: int
    columns: int
    ranks: int
    warps: int
    stages: int


def shrink_splits(rows: int, segments: int, in_features: int) -> int:
    """Parts of the sum over features, each with partial sums of its own: a power of two.

    Few rows leave most of the device idle unless many programs share a sum. Depends on the number
    of features and the regime only, so that a row is summed in the same order in every batch of
    its regime.
    """
    if _is_few(rows, segments):
        return _power_of_two_within(in_features // 512, 16)
    return _power_of_two_within(in_features // 1024, 4)


def shrink_tiles(
    rows: int, segments: int, ranks: int, in_features: int, itemsize: int
) -> ShrinkTiles:
    """`ranks` is the most that an adapter of the batch may have."""
    splits = shrink_splits(rows, segments, in_features)
    is_wide = itemsize == 4
    if _is_few(rows, segments):
        return ShrinkTiles(
            FEW_ROWS, 16, 32 if is_wide else 128, splits, warps=4, stages=4, registers=None
        )
    return ShrinkTiles(
        MANY_ROWS,
        _rank_block(ranks, 32 if is_wide else 64),
        16 if is_wide else 64,
        splits,
        warps=4,
        stages=3,
        registers=ALL_REGISTERS if is_wide else None,
    )


def expand_tiles(rows: int, segments: int, ranks: int) -> ExpandTiles:
    if _is_few(rows, segments):
        return ExpandTiles(FEW_ROWS, 128, _rank_block(ranks, 32), warps=4, stages=1)
    return ExpandTiles(MANY_ROWS, 128, 16, warps=8, stages=1)


def _is_few(rows: int, segments: int) -> bool:
    return rows <= FEW_ROWS * segments


def _rank_block(ranks: int, limit: int) -> int:
    return min(max(16, 1 << (ranks - 1).bit_length()), limit)


def _power_of_two_within(count: int, limit: int) -> int:
    return 1 << (min(max(count, 1), limit).bit_length() - 1)


@dataclass(frozen=True)
class AttentionTiles:
    """A program attends `queries` rows (tokens x grouped heads) to `keys` keys at a time.

    `parts` programs share a sequence's context.
    """

    queries: int
    keys: int
    parts: int
    warps: int
    stages: int
    registers: int | None


def attention_tiles(
    rows: int,
    sequences: int,
    context_limit: int,
    kv_heads: int,
    group: int,
    head_size: int,
    itemsize: int,
) -> AttentionTiles:
    """`context_limit` is the most tokens that the block tables can name."""
    is_decode = rows <= sequences
    is_prefill = rows * group > 64 * sequences
    is_wide = itemsize == 4
    parts = 1
    if is_decode:
        wanted = _PROGRAMS_WANTED // max(1, sequences * kv_heads)
        parts = _power_of_two_within(min(wanted, context_limit // _LEAST_KEYS_A_PART), 16)
    # The most at once that leaves every value in registers.
    if is_wide:
        queries, keys, warps = 16, 16 if head_size > 128 else 32, 8
    elif is_decode:
        queries, keys, warps = 16, 32 if head_size > 64 else 64, 4
    elif head_size > 128:
        queries, keys, warps = 64, 32, 8
    elif is_prefill:
        is_padded = head_size != _power_of_two(head_size)
        queries, keys, warps = 128, 32 if is_padded else 64, 8
    else:
        queries, keys, warps = 64, 32 if head_size > 64 else 64, 4
    return AttentionTiles(
        max(queries, _power_of_two(group)),
        keys,
        parts,
        warps,
        stages=3 if is_decode else 2,
        registers=ALL_REGISTERS if is_wide or is_decode or head_size <= 64 else None,
    )


def _power_of_two(count: int) -> int:
    return 1 << (count - 1).bit_length()


_PROGRAMS_WANTED: Final = 264
"""Two for each multiprocessor of a large device (an H100 has 132)."""

_LEAST_KEYS_A_PART: Final = 256
