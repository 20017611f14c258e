"""What the graph executor needs of CUDA, in one place: recording, events and pinned memory."""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor


class DeviceEvent(Protocol):
    """A point in the device's work."""

    def record(self) -> None:
        """Move it behind all work submitted so far."""
        ...

    def synchronize(self) -> None:
        """Wait on the host until the device has got there."""
        ...


class GraphDevice(Protocol):
    """A device that can repeat work it has once recorded."""

    @property
    def device(self) -> torch.device: ...

    def record(self, run: Callable[[], None]) -> Callable[[], None]:
        """What does on the device what `run` does, over the same tensors, without its Python.

        `run` is also called a few times for its effects.
        """
        ...

    def event(self) -> DeviceEvent: ...

    def host_bytes(self, size: int) -> Tensor:
        """uint8 `[size]` in memory of the host that the device copies from and to by itself."""
        ...


class CudaDevice:
    """The work of the engine's thread goes to that thread's current stream.

    All graphs share one pool of memory: they run one after another, so what one needs while it
    runs another may overwrite.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._memory = torch.cuda.graph_pool_handle()

    @property
    def device(self) -> torch.device:
        return self._device

    def record(self, run: Callable[[], None]) -> Callable[[], None]:
        current = torch.cuda.current_stream(self._device)
        # Kernels are compiled and libraries opened before the capture, during which neither may
        # happen, and on its stream, since cuBLAS keeps a handle and a workspace for each.
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            for _ in range(2):
                run()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(
            graph,
            pool=self._memory,
            stream=self._stream,
            # Another engine of this process may be loading adapters on threads of its own.
            capture_error_mode="thread_local",
        ):
            run()
        current.wait_stream(self._stream)
        replay: Callable[[], None] = graph.replay
        return replay

    def event(self) -> DeviceEvent:
        event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
        return event  # type: ignore[no-any-return]

    def host_bytes(self, size: int) -> Tensor:
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)
