"""Copies of whole pages into the pool, beside the steps: on a CPU, and to a CUDA device."""

from typing import Protocol

import numpy as np
import torch
from torch import Tensor


class Fence(Protocol):
    """Something a copy waits for on the device; nobody on the host does."""


class PageCopies(Protocol):
    """Copies from host memory to the pool, beside the device's other work."""

    are_at_once: bool
    """Whether the engine's thread may copy a little itself between two steps."""

    def fence(self) -> Fence | None:
        """Called on the engine's thread: the end of every step submitted so far."""
        ...

    def copy(self, sources: list[Tensor], targets: list[Tensor], after: Fence | None) -> None:
        """Wait on the device for `after`, copy, and wait on the host until that has ended."""
        ...


class MemoryCopies:
    """Within host memory, where a step submitted is a step computed."""

    are_at_once = True

    def fence(self) -> None:
        return None

    def copy(self, sources: list[Tensor], targets: list[Tensor], after: Fence | None) -> None:
        # By NumPy: torch would call its threads together, and a second team of them would fight
        # the step's for the cores.
        for source, target in zip(sources, targets, strict=True):
            np.copyto(_bytes(target), _bytes(source))


class CopyStream:
    """A CUDA stream of its own, so that copies and steps overlap."""

    are_at_once = False

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def fence(self) -> torch.cuda.Event:
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event

    def copy(self, sources: list[Tensor], targets: list[Tensor], after: Fence | None) -> None:
        assert isinstance(after, torch.cuda.Event)
        # The host sleeps until the end rather than spinning: the steps need the core.
        done = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        with torch.inference_mode(), torch.cuda.stream(self._stream):
            self._stream.wait_event(after)
            try:
                for source, target in zip(sources, targets, strict=True):
                    target.copy_(source, non_blocking=True)
            finally:
                # Also where one failed: no copy may be under way when the pages are given back.
                done.record(self._stream)
                done.synchronize()


def _bytes(page: Tensor) -> "np.typing.NDArray[np.uint8]":
    return page.view(torch.uint8).numpy()
