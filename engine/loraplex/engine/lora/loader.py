"""Fetches adapters and packs them into their reserved pages, on threads beside the steps."""

import logging
import mmap
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

import torch
from torch import Tensor

from loraplex.engine.adapter_source import AdapterSource
from loraplex.engine.lora.layout import AdapterLayout
from loraplex.engine.memory.pool import PageId
from loraplex.engine.memory.residency import AdapterKey
from loraplex.engine.protocol.adapter import AdapterRef, TensorRef
from loraplex.engine.protocol.errors import AdapterUnavailable, DomainError

log = logging.getLogger(__name__)

_DTYPES: Final = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@dataclass(frozen=True)
class LoadJob:
    """Pages are reserved for the whole load and belong to it until it has ended."""

    key: AdapterKey
    ref: AdapterRef
    layout: AdapterLayout
    pages: Sequence[PageId]


@dataclass(frozen=True)
class LoadResult:
    key: AdapterKey
    error: DomainError | None


class AdapterLoader:
    """Threads that take jobs; results wait in a queue until the engine thread collects them.

    `on_finished` is called on a loader thread after each result.
    """

    def __init__(
        self,
        source: AdapterSource,
        pool_data: Tensor,
        on_finished: Callable[[], None],
        threads: int = 2,
    ) -> None:
        self._source = source
        self._pool_data = pool_data
        self._on_finished = on_finished
        self._jobs: SimpleQueue[LoadJob | None] = SimpleQueue()
        self._results: SimpleQueue[LoadResult] = SimpleQueue()
        # Daemons: a fetch that hangs must not keep the process from ending.
        self._threads = [
            threading.Thread(target=self._run, name=f"adapter-loader-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: LoadJob) -> None:
        self._jobs.put(job)

    def collect(self) -> list[LoadResult]:
        """Loads that have ended since the last call."""
        results = []
        while True:
            try:
                results.append(self._results.get_nowait())
            except Empty:
                return results

    def close(self) -> None:
        """Let the threads end after the jobs they have; does not wait for them."""
        for _ in self._threads:
            self._jobs.put(None)

    def run_one(self) -> bool:
        """Wait for a job and do it; False where the loader has been closed."""
        job = self._jobs.get()
        if job is None:
            return False
        self._results.put(LoadResult(job.key, self._load(job)))
        self._on_finished()
        return True

    def _run(self) -> None:
        while self.run_one():
            pass

    def _load(self, job: LoadJob) -> DomainError | None:
        try:
            pack(job, self._source.fetch(job.ref), self._pool_data)
        except DomainError as error:
            return error
        except Exception as error:  # whatever a source raises fails its own requests only
            log.exception("loading adapter %s failed", job.ref.spec.digest)
            return AdapterUnavailable(
                f"The adapter's weights could not be loaded: {type(error).__name__}."
            )
        return None


def pack(job: LoadJob, path: Path, pool_data: Tensor) -> None:
    """Copy every tile from the file into its place, converted to the pool's dtype.

    Raises AdapterUnavailable where the file is not the one the spec speaks of.
    """
    spec = job.ref.spec
    with path.open("rb") as file, torch.inference_mode():
        size = path.stat().st_size
        if size != spec.weights_bytes:
            raise AdapterUnavailable(
                f"The adapter's file has {size} bytes instead of {spec.weights_bytes}."
            )
        # Never closed by hand: tensors still refer to the map when an error leaves this function.
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        for tile in job.layout.tiles:
            stored = _stored(data, tile.tensor)
            rows = stored if tile.is_a else stored.t()
            ranks = tile.end - tile.start
            place = pool_data[job.pages[tile.page]][tile.offset :][: ranks * tile.width]
            place.view(ranks, tile.width).copy_(rows[tile.start : tile.end])


def _stored(data: mmap.mmap, tensor: TensorRef) -> Tensor:
    dtype = _DTYPES[tensor.dtype]
    count = tensor.shape[0] * tensor.shape[1]
    if tensor.end > len(data) or tensor.end - tensor.start != count * dtype.itemsize:
        raise AdapterUnavailable(f"The adapter's tensor {tensor.name} does not fill its bytes.")
    flat = torch.frombuffer(data, dtype=dtype, count=count, offset=tensor.start)
    return flat.view(tensor.shape)
