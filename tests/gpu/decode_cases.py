"""A recorded decode step of a model of one billion parameters, beside the floor of its bytes."""

import time
from functools import partial
from typing import Any

import torch

from loraplex.engine.execution.cuda_device import CudaDevice, GraphDevice
from loraplex.engine.kernels.ops import Backend
from tests.engine.execution.host_device import HostDevice
from tests.engine.made_model import MadeModel, Row, Sizes
from tests.gpu.model_cases import Recorded
from tests.gpu.report import Report
from tests.gpu.speed_cases import seconds_of

_BILLION = Sizes(
    layers=16,
    hidden=2048,
    intermediate=8192,
    heads=32,
    kv_heads=8,
    vocabulary=128256,
    max_tokens=4096,
    block_tokens=16,
)
_TINY = Sizes(max_tokens=64)
_RANK = 16
_STEPS = 10


def run_decode_cases(report: Report, device: torch.device, copy_rate: float) -> None:
    """Steps of all rows with no adapter, with few and with one for each row."""
    is_cuda = device.type == "cuda"
    sizes, rows = (_BILLION, 64) if is_cuda else (_TINY, 4)
    context = 512 if is_cuda else 9
    made: list[tuple[MadeModel, Recorded]] = []

    def build() -> dict[str, Any]:
        recorder: GraphDevice = CudaDevice(device) if is_cuda else HostDevice()
        model = MadeModel(
            sizes,
            rows * (-(-context // sizes.block_tokens) + _adapter_pages(sizes)),
            dtype=torch.bfloat16 if is_cuda else torch.float32,
            device=device,
            backend=None if is_cuda else Backend.REFERENCE,
        )
        model.pool.data.normal_(std=0.02)
        for _ in range(rows):
            model.add_adapter(_RANK)
        begun_at = time.monotonic()
        made.append((model, Recorded(model, recorder, rows)))
        return {"record_seconds": round(time.monotonic() - begun_at, 1)}

    report.run("build and record", build)
    if not made:
        return
    model, recorded = made[0]
    base: list[float] = []
    for adapters in (0, 8 if is_cuda else 2, rows):
        report.run(
            f"decode {rows} rows {adapters} adapters",
            partial(_decode, model, recorded, rows, context, adapters, copy_rate, base),
        )


def _decode(
    model: MadeModel,
    recorded: Recorded,
    rows: int,
    context: int,
    adapters: int,
    copy_rate: float,
    base: list[float],
) -> dict[str, Any]:
    device = model.pool.data.device
    blocks = model.geometry.blocks_of(context)
    pages = model.pool.take(rows * blocks)
    model.pool.give_back(pages)
    of_rows = [place * adapters // rows for place in range(rows)] if adapters else [None] * rows
    batch = model.decode_batch(
        [Row(context, place, adapter) for place, adapter in enumerate(of_rows)], pages
    )

    def steps() -> None:
        for _ in range(_STEPS):
            recorded.step(batch)

    # As they follow one another when serving: the host writes one while the device runs another.
    seconds = seconds_of(steps, device, 5) / _STEPS
    base.append(seconds)
    bytes_read = _weight_bytes(model) + _kv_bytes(model, rows * context)
    bytes_read += adapters * _adapter_bytes(model)
    floor = bytes_read / copy_rate
    return {
        "step_ms": round(seconds * 1e3, 3),
        "floor_ms": round(floor * 1e3, 3),
        "of_floor": round(floor / seconds, 3),
        "of_base": round(base[0] / seconds, 3),
        "tokens_per_s": round(rows / seconds),
    }


def _adapter_pages(sizes: Sizes) -> int:
    """Room for one, with half of its size for what tiles leave unused."""
    head_size = sizes.hidden // sizes.heads
    keys = sizes.kv_heads * head_size
    widths = 4 * sizes.hidden + 2 * (sizes.hidden + keys) + 3 * (sizes.hidden + sizes.intermediate)
    elements = _RANK * widths * sizes.layers
    page_elements = sizes.layers * sizes.block_tokens * 2 * keys
    return elements * 3 // (2 * page_elements) + 1


def _weight_bytes(model: MadeModel) -> int:
    linears = sum(m.in_features * m.out_features for m in model.table.modules)
    return (linears + model.sizes.vocabulary * model.sizes.hidden) * model.pool.data.itemsize


def _kv_bytes(model: MadeModel, tokens: int) -> int:
    per_token = model.geometry.layers * model.geometry.token_elements
    return tokens * per_token * model.pool.data.itemsize


def _adapter_bytes(model: MadeModel) -> int:
    widths = sum(m.in_features + m.out_features for m in model.table.modules)
    return _RANK * widths * model.pool.data.itemsize
