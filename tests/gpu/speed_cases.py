"""How fast: a copy, SGMV against that copy, and a decode step against reading the weights once."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from loraplex.engine.execution.cuda_device import CudaDevice, GraphDevice
from loraplex.engine.kernels.ops import Backend, Kernels, kernels
from tests.engine.execution.host_device import HostDevice
from tests.gpu.report import Report


@dataclass(frozen=True)
class Scale:
    """What is measured; a dry run only follows the same steps."""

    copy_bytes: int
    features: int
    layers: int
    adapters: tuple[int, ...]
    rows: int
    repeats: int


FULL = Scale(2**31, 4096, 32, (1, 8, 64), 64, 20)
DRY = Scale(2**12, 64, 2, (1, 4), 4, 1)


def run_speed_cases(report: Report, device: torch.device) -> float:
    """Bytes a second of a plain copy, read and write together."""
    is_cuda = device.type == "cuda"
    scale = FULL if is_cuda else DRY
    recorder: GraphDevice = CudaDevice(device) if is_cuda else HostDevice()
    rates: list[float] = []

    def copy() -> dict[str, Any]:
        rates.append(_copy_rate(scale, device))
        return {"copy_gb_per_s": round(rates[0] / 1e9, 1)}

    report.run("copy", copy)
    rate = rates[0] if rates else float("nan")
    ops = kernels(None if is_cuda else Backend.REFERENCE)
    for adapters in scale.adapters:
        for rank in (16, 64):
            report.run(
                f"sgmv decode {adapters} adapters r{rank}",
                partial(_sgmv_rate, scale, recorder, ops, adapters, rank, rate),
            )
    return rate


def seconds_of(run: Callable[[], object], device: torch.device, repeats: int) -> float:
    """The median of so many runs, by the device's own clock where it has one."""
    run()
    taken: list[float] = []
    for _ in range(repeats):
        if device.type == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            begin.record()
            run()
            end.record()
            end.synchronize()
            taken.append(begin.elapsed_time(end) / 1e3)
        else:
            begun_at = time.perf_counter()
            run()
            taken.append(time.perf_counter() - begun_at)
    return sorted(taken)[len(taken) // 2]


def _copy_rate(scale: Scale, device: torch.device) -> float:
    source = torch.zeros(scale.copy_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    seconds = seconds_of(partial(target.copy_, source), device, scale.repeats)
    return 2 * scale.copy_bytes / seconds


def _sgmv_rate(
    scale: Scale, recorder: GraphDevice, ops: Kernels, adapters: int, rank: int, copy_rate: float
) -> dict[str, Any]:
    """Shrink and expand of one square linear in many layers, so that caches hold none of it."""
    device, features = recorder.device, scale.features
    tile_rank = min(rank, 16)
    tiles = rank // tile_rank
    tile = tile_rank * features
    count = scale.layers * adapters * tiles * 2
    pages = torch.randn(count, tile, device=device).to(torch.bfloat16)
    offsets = (torch.arange(count, device=device) * tile).view(2, scale.layers, adapters, 1, tiles)
    ranks = torch.full((adapters, 1), rank, dtype=torch.int32, device=device)
    scales = torch.ones(adapters, 1, device=device)
    share = scale.rows // adapters
    segments = torch.tensor(
        [(share * a, share * (a + 1), a) for a in range(adapters)], dtype=torch.int32
    ).to(device)
    x = torch.randn(scale.rows, features, device=device).to(torch.bfloat16)
    y = torch.zeros_like(x)

    def shrink() -> None:
        for layer in range(scale.layers):
            ops.sgmv_shrink(x, pages, offsets[0, layer], ranks, segments, tile_rank)

    h = ops.sgmv_shrink(x, pages, offsets[0, 0], ranks, segments, tile_rank)

    def expand() -> None:
        for layer in range(scale.layers):
            ops.sgmv_expand(
                y, h, pages, offsets[1, layer], ranks, scales, segments, [0, features], tile_rank
            )

    moved = scale.layers * adapters * rank * features * pages.itemsize
    values: dict[str, Any] = {"rows": scale.rows, "weight_mb_a_launch": moved / scale.layers / 1e6}
    for name, run in (("shrink", shrink), ("expand", expand)):
        with torch.inference_mode():
            seconds = seconds_of(recorder.record(run), device, scale.repeats)
        values[f"{name}_us"] = round(seconds / scale.layers * 1e6, 2)
        values[f"{name}_gb_per_s"] = round(moved / seconds / 1e9, 1)
        # The copy's rate counts reads and writes; here nearly all bytes are read.
        values[f"{name}_of_copy"] = round(moved / seconds / copy_rate, 3)
    return values
