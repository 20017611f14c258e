"""Every kernel against `reference`, on the inputs that the interpreter's tests use too."""

from dataclasses import fields, replace
from functools import partial
from typing import Any, Final, TypeVar

import torch
from torch import Tensor

from loraplex.engine.kernels import reference
from loraplex.engine.kernels.ops import Backend, kernels
from tests.engine.kernels.cases import Attention, Sgmv, attention, sgmv
from tests.gpu.report import Report

DTYPES: Final = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
_TOLERANCES: Final = {torch.float32: 2e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""Of the largest number: products are taken in the storage's precision, sums in float32."""

_RANKS: Final = {
    **{f"r{rank}": [[rank] * 3] for rank in (1, 4, 8, 12, 16, 24, 64, 128)},
    "mixed": [[16, 0, 4], [64, 64, 64], [0, 0, 8], [1, 12, 128]],
}
_ROWS: Final = (1, 15, 16, 17, 129)

_ATTENTION: Final[dict[str, tuple[list[tuple[int, int]], dict[str, Any]]]] = {
    "decodes": ([(1, 1), (1, 17), (1, 300), (1, 64)], {}),
    "long decode": ([(1, 3000), (1, 5)], {"heads": 8, "kv_heads": 2}),
    "chunks": ([(33, 33), (1, 40), (16, 100), (129, 129)], {}),
    "unused": ([(1, 9), (1, 0), (0, 0), (1, 0)], {"spare_blocks": 7}),
    "window": ([(40, 90), (1, 77)], {"window": 17}),
    "wide heads": ([(5, 70), (1, 33)], {"head_size": 256}),
    "odd heads": ([(5, 70), (1, 33)], {"head_size": 80, "heads": 14, "kv_heads": 2}),
    "one head each": ([(20, 20), (1, 513)], {"head_size": 128, "heads": 4, "kv_heads": 4}),
}

_Case = TypeVar("_Case", Sgmv, Attention)


def run_kernel_cases(report: Report, device: torch.device) -> None:
    """On CUDA what the dispatcher chooses; elsewhere `reference` against itself."""
    is_dry = device.type != "cuda"
    ops = kernels(Backend.REFERENCE if is_dry else None)
    sizes = (24,) if is_dry else (56, 1000, 4096)
    rows = (1, 17) if is_dry else _ROWS
    for dtype_name, dtype in DTYPES.items():
        for name, ranks in _RANKS.items():
            report.run(
                f"sgmv {name} {dtype_name}",
                partial(_sgmv_case, ops, device, ranks, rows, sizes, dtype),
            )
        for name, (sequences, options) in _ATTENTION.items():
            report.run(
                f"paged_attention {name} {dtype_name}",
                partial(_attention_case, ops, device, sequences, options, dtype),
            )
        report.run(f"write_kv {dtype_name}", partial(_write_kv_case, ops, device, dtype))


def _sgmv_case(
    ops: Any,
    device: torch.device,
    ranks: list[list[int]],
    rows: tuple[int, ...],
    sizes: tuple[int, ...],
    dtype: torch.dtype,
) -> dict[str, Any]:
    worst = 0.0
    for count in rows:
        for in_features in sizes:
            segments = _segments(count, len(ranks))
            case = sgmv(ranks, segments, count, dtype=dtype, in_features=in_features)
            exact = _widened(case)
            wanted = exact.expand(reference, exact.shrink(reference))
            own = _moved(case, device)
            found = own.expand(ops, own.shrink(ops)).cpu().float()
            worst = max(worst, _error(found, wanted, dtype))
            again = own.expand(ops, own.shrink(ops)).cpu().float()
            assert torch.equal(found, again), "the same sum twice is the same number"
    return {"largest_error": worst}


def _segments(rows: int, adapters: int) -> list[tuple[int, int, int]]:
    """Cut as assembly cuts, with an empty segment, and base rows between and behind."""
    segments = [(0, 0, 0)]
    first = 1 if rows > 2 else 0
    share = max(1, (rows - first) // (adapters + 1))
    for adapter in range(adapters):
        end = min(first + share, rows)
        segments += [(start, min(start + 64, end), adapter) for start in range(first, end, 64)]
        first = end + (1 if end + 1 < rows else 0)
    return segments


def _attention_case(
    ops: Any,
    device: torch.device,
    sequences: list[tuple[int, int]],
    options: dict[str, Any],
    dtype: torch.dtype,
) -> dict[str, Any]:
    case = attention(sequences, dtype=dtype, **options)
    wanted = _widened(case).attend(reference)
    found = _moved(case, device).attend(ops).cpu().float()
    return {"largest_error": _error(found, wanted, dtype)}


def _write_kv_case(ops: Any, device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    layers, block_tokens, heads, head_size = 2, 4, 3, 40
    generator = torch.Generator().manual_seed(0)
    shape = (6, layers * block_tokens * 2 * heads * head_size)
    pages = torch.randn(shape, generator=generator).to(dtype)
    kv = torch.randn(5, 2, heads, head_size, generator=generator).to(dtype)
    slots = torch.tensor([8, -1, 40, 3, -1])
    wanted = pages.clone()
    reference.write_kv(kv, wanted, slots, 1, layers, block_tokens)
    found = pages.to(device)
    ops.write_kv(kv.to(device), found, slots.to(device), 1, layers, block_tokens)
    assert torch.equal(found.cpu(), wanted), "a copy is exact, and touches nothing else"
    return {}


def _error(found: Tensor, wanted: Tensor, dtype: torch.dtype) -> float:
    """The largest difference by the largest number; raises where it is too large."""
    assert found.shape == wanted.shape
    if not wanted.numel():
        return 0.0
    assert bool(found.isfinite().all()), "nothing that may not be read has been read"
    error = float((found - wanted).abs().max() / wanted.abs().max().clamp(min=1.0))
    assert error <= _TOLERANCES[dtype], f"error {error:.2e} above {_TOLERANCES[dtype]:.0e}"
    return round(error, 7)


def _moved(case: _Case, device: torch.device) -> _Case:
    tensors: dict[str, Any] = {n: value.to(device) for n, value in _tensors(case).items()}
    return replace(case, **tensors)


def _widened(case: _Case) -> _Case:
    """In float32: what storage rounds is rounded already."""
    tensors: dict[str, Any] = {
        name: value.float() for name, value in _tensors(case).items() if value.is_floating_point()
    }
    return replace(case, **tensors)


def _tensors(case: Sgmv | Attention) -> dict[str, Tensor]:
    values = {field.name: getattr(case, field.name) for field in fields(case)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}
