"""What keeping something in the pool is worth: one scale for cached blocks and adapters.

GreedyDual-Size-Frequency (Cherkasova, "Improving WWW Proxies Performance with
Greedy-Dual-Size-Frequency Caching Policy", HPL-98-69R1, 1998): value = floor + uses · cost / size,
where the floor rises to the value of whatever was evicted last. What is used again starts from
the floor of that moment, so what was not used for long falls behind, however popular it was.
"""

from dataclasses import dataclass
from typing import Final

_MEASURED_BLOCKS: Final = 4.0
"""Smaller steps are mostly decodes, whose tokens cost more than a prompt's."""


@dataclass(slots=True)
class ValueScale:
    """Values are per page, in units of one cached block that is computed again once."""

    block_seconds: float = 0.01
    """What computing one block takes: a first guess, until steps have been recorded."""
    floor: float = 0.0

    def record_step(self, blocks: float, seconds: float) -> None:
        """A step computed so many blocks' worth of tokens."""
        if blocks >= _MEASURED_BLOCKS:
            self.block_seconds += 0.1 * (seconds / blocks - self.block_seconds)

    def adapter_worth(self, uses: float, load_seconds: float, pages: int) -> float:
        return uses * load_seconds / (self.block_seconds * pages)

    def evicted(self, value: float) -> None:
        """Something of this value has left: what comes from now on is worth more."""
        self.floor = max(self.floor, value)
