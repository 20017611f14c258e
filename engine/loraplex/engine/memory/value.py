"""What keeping something in the pool is worth: one scale for cached blocks and adapters.

GreedyDual-Size-Frequency (Cherkasova, "Improving WWW Proxies Performance with
Greedy-Dual-Size-Frequency Caching Policy", HPL-98-69R1, 1998): value = floor + uses · cost / size,
where the floor rises to the value of whatever was evicted last. What is used again starts from
the floor of that moment, so what was not used for long falls behind, however popular it was.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class ValueScale:
    """Values are per page, in units of one cached block that is computed again once."""

    block_seconds: float = 0.01
    """What computing one block again takes. Whoever measures steps keeps it up to date."""
    floor: float = 0.0

    def adapter_worth(self, uses: float, load_seconds: float, pages: int) -> float:
        return uses * load_seconds / (self.block_seconds * pages)

    def evicted(self, value: float) -> None:
        """Something of this value has left: what comes from now on is worth more."""
        self.floor = max(self.floor, value)
