"""Every kernel compiles for every GPU we name, in the forms of its launches. Needs no GPU."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, product
from pathlib import Path

import pytest
import torch

from loraplex.engine.kernels.triton.attention import attention_launches
from loraplex.engine.kernels.triton.expand import expand_launches
from loraplex.engine.kernels.triton.launch import IS_INTERPRETED, Launch
from loraplex.engine.kernels.triton.shrink import shrink_launches
from loraplex.engine.kernels.triton.write_kv import write_kv_launches
from tests.engine.kernels.triton.compilation import SHARED_LIMITS, compile_ahead

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
HEAD_SIZES = (64, 80, 96, 112, 128, 256)
LAYERS, BLOCK_TOKENS, HEADS, KV_HEADS = 32, 16, 32, 8
ROWS_AND_SEQUENCES = {
    "decodes in parts": (8, 8),
    "decodes": (64, 64),
    "mixed": (570, 60),
    "prefill": (2048, 8),
}


@dataclass(frozen=True)
class Form:
    """A launch's shape but for its numbers' type."""

    op: str
    rows: int
    segments_or_sequences: int
    tiles: int = 1
    head_size: int = 128
    window: int = 0

    def launches(self, dtype: torch.dtype) -> list[Launch]:
        if self.op in ("shrink", "expand"):
            return self._sgmv(dtype)[self.op == "expand"]
        if self.op == "write_kv":
            slots = _meta(self.rows, dtype=torch.int64)
            kv = _meta(self.rows, 2, KV_HEADS, self.head_size, dtype=dtype)
            pages = _pages(self.head_size, dtype)
            return write_kv_launches(kv, pages, slots, 3, LAYERS, BLOCK_TOKENS)[0]
        sequences = self.segments_or_sequences
        launches, _ = attention_launches(
            _meta(self.rows, HEADS, self.head_size, dtype=dtype),
            _pages(self.head_size, dtype),
            _meta(sequences, 256, dtype=torch.int32),
            _meta(sequences + 1, dtype=torch.int32),
            _meta(sequences, dtype=torch.int32),
            3,
            LAYERS,
            BLOCK_TOKENS,
            KV_HEADS,
            self.head_size**-0.5,
            self.window,
        )
        return launches

    def _sgmv(self, dtype: torch.dtype) -> tuple[list[Launch], list[Launch]]:
        in_features, widths = 4096, (4096, 1024, 1024)
        segments = _meta(self.segments_or_sequences, 3, dtype=torch.int32)
        modules, adapters = 7 * LAYERS, self.segments_or_sequences
        offsets = _meta(adapters, modules, self.tiles, dtype=torch.int64)[:, :3]
        ranks = _meta(adapters, modules, dtype=torch.int32)[:, :3]
        scales = _meta(adapters, modules, dtype=torch.float32)[:, :3]
        x, y = (_meta(self.rows, width, dtype=dtype) for width in (in_features, sum(widths)))
        pages = _pages(128, dtype)
        shrink, h = shrink_launches(x, pages, offsets, ranks, segments, 16)
        starts = [0, *accumulate(widths)]
        expand, _ = expand_launches(y, h, pages, offsets, ranks, scales, segments, starts, 16)
        return shrink, expand


def _meta(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def _pages(head_size: int, dtype: torch.dtype) -> torch.Tensor:
    return _meta(100, LAYERS * BLOCK_TOKENS * 2 * KV_HEADS * head_size, dtype=dtype)


def _sgmv_forms() -> dict[str, Form]:
    """Few rows a segment or many, and each size of a block of ranks."""
    return {
        f"{op}, {name} rows, {tiles} rank tiles": Form(op, rows, 32, tiles)
        for op, (name, rows), tiles in product(
            ("shrink", "expand"), (("few", 64), ("many", 2048)), (1, 2, 4)
        )
    }


def _attention_forms(head_size: int, window: int) -> dict[str, Form]:
    seen = f"a window of {window}" if window else "all"
    return {
        f"attention, {mix}, head size {head_size}, {seen}": Form(
            "attention", rows, sequences, head_size=head_size, window=window
        )
        for mix, (rows, sequences) in ROWS_AND_SEQUENCES.items()
    }


def _cases() -> Iterator[object]:
    """All forms, types and GPUs; those beyond a sample of each form only in `make soak`."""
    forms = _sgmv_forms() | {"write_kv": Form("write_kv", 64, 0)}
    sampled = list(forms)
    for head_size, window in product(HEAD_SIZES, (0, 1000)):
        forms |= _attention_forms(head_size, window)
    for place, mix in enumerate(ROWS_AND_SEQUENCES):
        head_size = HEAD_SIZES[(2 * place) % len(HEAD_SIZES)]
        sampled += [
            name for name in _attention_forms(head_size, 1000 * (place % 2)) if f", {mix}," in name
        ]
    pairs = list(product(DTYPES, SHARED_LIMITS))
    # Steps by a number prime to the pairs', so that neighbours differ in type and GPU.
    chosen = {name: pairs[4 * place % len(pairs)] for place, name in enumerate(sampled)}
    for (name, form), pair in product(forms.items(), pairs):
        dtype, capability = pair
        marks = () if chosen.get(name) == pair else (pytest.mark.soak,)
        yield pytest.param(
            form, dtype, capability, id=f"{name}, {str(dtype)[6:]}, sm_{capability}", marks=marks
        )


@pytest.mark.parametrize(("form", "dtype", "capability"), list(_cases()))
def test_a_kernel_keeps_to_registers_and_shared_memory(
    form: Form,
    dtype: torch.dtype,
    capability: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not IS_INTERPRETED, "this process was started for the interpreter"
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    for launch in form.launches(dtype):
        usage = compile_ahead(launch, capability, tmp_path)
        assert usage.spilled_bytes == 0, usage
        assert usage.shared_bytes <= SHARED_LIMITS[capability], usage
