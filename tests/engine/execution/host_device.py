"""A device that is the host: recorded work is run again, events only keep the order."""

from collections.abc import Callable

import torch
from torch import Tensor


class HostEvent:
    """Remembers whether the work recorded last was waited for."""

    def __init__(self) -> None:
        self.is_pending = False

    def record(self) -> None:
        self.is_pending = True

    def synchronize(self) -> None:
        self.is_pending = False


class HostDevice:
    def __init__(self) -> None:
        self.events: list[HostEvent] = []
        self.recorded = 0

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def record(self, run: Callable[[], None]) -> Callable[[], None]:
        run()
        self.recorded += 1
        return run

    def event(self) -> HostEvent:
        self.events.append(HostEvent())
        return self.events[-1]

    def host_bytes(self, size: int) -> Tensor:
        return torch.full((size,), 0x5A, dtype=torch.uint8)
