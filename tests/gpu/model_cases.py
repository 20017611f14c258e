"""The engine's device side on a small made model: parity, recorded steps, and loads."""

from functools import partial
from itertools import cycle, islice
from typing import Any

import torch
from torch import Tensor

from loraplex.engine.core import EngineCore
from loraplex.engine.execution.cuda_device import CudaDevice, GraphDevice
from loraplex.engine.execution.cuda_executor import STEPS_AHEAD, GraphExecutor
from loraplex.engine.execution.cuda_graphs import DecodeGraphs, ForwardPass
from loraplex.engine.execution.cuda_inputs import StagingRing, StepInputs
from loraplex.engine.execution.cuda_shapes import GraphShapes
from loraplex.engine.execution.device import Device
from loraplex.engine.execution.eager import EagerExecutor
from loraplex.engine.execution.executor import Executor
from loraplex.engine.kernels.ops import Backend
from loraplex.engine.lora.staging import DirectWriter, page_writer
from loraplex.engine.memory.pool import PageId
from loraplex.engine.models.batch import Batch
from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.protocol.identity import Digest, TenantNamespace
from loraplex.engine.protocol.sampling import SamplingParams
from tests.engine.driving import LocalFiles, request, run
from tests.engine.execution.host_device import HostDevice
from tests.engine.lora.files import PAGE_ELEMENTS, PATHS, adapter_file, random_tensors, unpacked
from tests.engine.made_model import HOST, MadeModel, Row, Sizes, on_device
from tests.gpu.report import Report

_TINY = Sizes(layers=2, hidden=64, intermediate=96, heads=4, kv_heads=2, max_tokens=64)
_SMALL = Sizes(
    layers=4,
    hidden=256,
    intermediate=704,
    heads=8,
    kv_heads=2,
    vocabulary=1000,
    max_tokens=256,
    block_tokens=16,
)
_SEQUENCE_BLOCKS = 4
_ADAPTERS = ((16, 1), (8, 1), (24, 2), (64, 3), (1, 4))
_TOLERANCES = {torch.float32: 1e-3, torch.bfloat16: 6e-2}


def run_model_cases(report: Report, device: torch.device) -> None:
    graphs: GraphDevice = CudaDevice(device) if device.type == "cuda" else HostDevice()
    sizes = _SMALL if device.type == "cuda" else _TINY
    for dtype in _TOLERANCES:
        name = str(dtype).removeprefix("torch.")
        report.run(f"model parity {name}", partial(_parity_case, sizes, device, dtype))
        report.run(
            f"recorded decode is eager decode {name}",
            partial(_graph_case, sizes, graphs, dtype),
        )
    report.run("adapters through pinned memory", partial(_load_case, device))
    report.run("an engine that runs ahead", partial(_engine_case, sizes, graphs))


def made(
    sizes: Sizes,
    sequences: int,
    dtype: torch.dtype,
    device: torch.device,
    content: Tensor | None = None,
    adapters: tuple[tuple[int, int], ...] = _ADAPTERS,
) -> tuple[MadeModel, Tensor]:
    """A model with adapters and room for sequences, and its pool's content on the host."""
    backend = None if device.type == "cuda" else Backend.REFERENCE
    model = MadeModel(
        sizes,
        400 + sequences * _SEQUENCE_BLOCKS,
        dtype=dtype,
        device=device,
        backend=backend,
    )
    for rank, every in adapters:
        model.add_adapter(rank, every)
    if content is None:
        generator = torch.Generator().manual_seed(0)
        content = torch.randn(model.pool.data.shape, generator=generator) * 0.05
        content = content.to(torch.bfloat16).float()
    model.pool.data.copy_(content.to(dtype))
    return model, content


def _rows(sizes: Sizes, count: int) -> list[Row]:
    """Sequences of many lengths; base rows lie between the adapters' rows."""
    limit = sizes.block_tokens * _SEQUENCE_BLOCKS
    adapters = islice(cycle([0, 0, None, 1, 2, None, 3, 4]), count)
    return [
        Row(1 + 37 * place % limit, 11 * place % sizes.vocabulary, adapter)
        for place, adapter in enumerate(adapters)
    ]


def _pages(model: MadeModel, count: int) -> list[PageId]:
    pages = model.pool.take(count * _SEQUENCE_BLOCKS)
    model.pool.give_back(pages)
    return pages


def _parity_case(sizes: Sizes, device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """A prompt in one chunk, then decodes, against the host in float32."""
    exact, content = made(sizes, 8, torch.float32, HOST)
    model, _ = made(sizes, 8, dtype, device, content)
    pages = _pages(exact, 8)
    tokens = sizes.block_tokens * 3 + 1
    batches = [
        exact.chunk_batch(tokens, 2, pages[:_SEQUENCE_BLOCKS]),
        exact.chunk_batch(tokens, None, pages[:_SEQUENCE_BLOCKS]),
        exact.decode_batch(_rows(sizes, 8), pages),
    ]
    worst = 0.0
    for batch in batches:
        with torch.inference_mode():
            wanted = exact.decoder.forward(batch, exact.pool.data)
            found = model.decoder.forward(on_device(batch, device), model.pool.data)
        worst = max(worst, _error(found.cpu(), wanted, dtype))
    return {"largest_error": worst}


def _graph_case(sizes: Sizes, device: GraphDevice, dtype: torch.dtype) -> dict[str, Any]:
    """Steps of falling and rising sizes, so that every buffer holds another step's rest."""
    model, content = made(sizes, 40, dtype, device.device)
    graphs = Recorded(model, device, max_rows=40 if device.device.type == "cuda" else 6)
    kept = content.to(dtype)
    worst = 0.0
    for count in (graphs.shapes.rows[-1], 1, 5, 2, graphs.shapes.rows[-1] - 1, 3):
        rows = _rows(sizes, min(count, 40))
        batch = model.decode_batch(rows, _pages(model, len(rows)))
        model.pool.data.copy_(kept)
        with torch.inference_mode():
            wanted = model.decoder.forward(on_device(batch, device.device), model.pool.data).cpu()
        pool = model.pool.data.cpu()
        model.pool.data.copy_(kept)
        found = graphs.step(batch)[: len(rows)].cpu()
        worst = max(worst, _error(found, wanted, dtype))
        _error(model.pool.data.cpu().float(), pool.float(), dtype)
    return {"largest_error": worst, "graphs": len(graphs.shapes.all())}


class Recorded:
    """A made model's graphs."""

    def __init__(self, model: MadeModel, device: GraphDevice, max_rows: int) -> None:
        blocks = model.geometry.blocks_of(model.sizes.max_tokens)
        self.shapes = GraphShapes(max_rows, blocks, model.tile_rank)
        self._staging = StagingRing(device)
        forward = ForwardPass(
            model.decoder, model.pool, device.device, self.shapes.rows[-1], model.tile_rank
        )
        with torch.inference_mode():
            self._graphs = DecodeGraphs(
                device, forward, self.shapes, model.geometry.layers, model.sizes.vocabulary
            )

    def step(self, batch: Batch) -> Tensor:
        shape = self.shapes.fit(batch)
        assert shape is not None, "a decode step of assembly's order has a graph"
        with torch.inference_mode():
            return self._graphs.run(shape, StepInputs.of(batch, []), self._staging)[1]


def _load_case(device: torch.device) -> dict[str, Any]:
    """Loaded, evicted, loaded from the host's copy: always the same bytes in other pages."""
    ranks = dict.fromkeys(PATHS, 9)
    for stored in (torch.float32, torch.bfloat16):
        with adapter_file(random_tensors(ranks, stored)) as file:
            pool = torch.zeros(40, PAGE_ELEMENTS, dtype=torch.bfloat16, device=device)
            direct = torch.zeros(40, PAGE_ELEMENTS, dtype=torch.bfloat16)
            writer = page_writer(pool)
            key = TenantNamespace("tests"), Digest("a")
            for first in (0, 11, 5):
                pages = [PageId(first + page) for page in reversed(range(file.layout.pages))]
                pool.fill_(float("nan"))
                writer.write(key, file, pages, writer.fence())
                DirectWriter(direct).write(key, file, pages, None)
                found, wanted = unpacked(file, pool.cpu(), pages), unpacked(file, direct, pages)
                for path in PATHS:
                    assert torch.equal(found[path][0], wanted[path][0])
                    assert torch.equal(found[path][1], wanted[path][1])
    return {"writer": type(writer).__name__}


def _engine_case(sizes: Sizes, device: GraphDevice) -> dict[str, Any]:
    """The whole core, one step ahead and recorded, against one step at a time."""
    wanted, found = (_answers(sizes, device, is_ahead) for is_ahead in (False, True))
    assert found == wanted, "running ahead changes no token"
    return {"tokens": sum(map(len, found.values()))}


def _answers(sizes: Sizes, device: GraphDevice, is_ahead: bool) -> dict[str, list[int]]:
    """Token ids of a few requests, sampled in several ways."""
    model, _ = made(sizes, 8, torch.float32, device.device, adapters=())
    executor: Executor = EagerExecutor(model.decoder, model.pool, model.geometry, model.tile_rank)
    if is_ahead:
        executor = GraphExecutor(
            device,
            model.decoder,
            model.pool,
            model.geometry,
            model.tile_rank,
            max_sequences=6,
            max_tokens=sizes.max_tokens,
            vocabulary_size=sizes.vocabulary,
        )
    config = EngineConfig(
        model_dir="",
        base_name="made",
        block_tokens=sizes.block_tokens,
        max_step_tokens=24,
        max_running_requests=6,
        adapter_cache_dir="",
    )
    opened = Device(
        executor,
        model.geometry,
        model.pool,
        model.tile_rank,
        steps_ahead=STEPS_AHEAD if is_ahead else 0,
    )
    engine = EngineCore(config, model.table, LocalFiles(), opened)
    requests = [
        request(f"{place}", range(3, 6 + 2 * place), _SAMPLINGS[place % len(_SAMPLINGS)])
        for place in range(9)
    ]
    answers = run(engine, *requests)
    engine.close()
    return {name: answer.token_ids for name, answer in answers.items()}


_SAMPLINGS = (
    SamplingParams(max_tokens=12, temperature=0.0),
    SamplingParams(max_tokens=9, temperature=0.8, top_p=0.9, seed=5),
    SamplingParams(max_tokens=10, temperature=0.0, repetition_penalty=1.4),
)


def _error(found: Tensor, wanted: Tensor, dtype: torch.dtype) -> float:
    error = float((found - wanted).abs().max() / wanted.abs().max().clamp(min=1.0))
    assert error <= _TOLERANCES[dtype], f"error {error:.2e} above {_TOLERANCES[dtype]:.0e}"
    return round(error, 7)
