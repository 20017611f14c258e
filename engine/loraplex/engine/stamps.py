"""When a request came to each place on its way to its first token, by the monotonic clock."""

from dataclasses import dataclass, field
from time import monotonic

from loraplex.engine.protocol.generation import RequestTiming


@dataclass(slots=True)
class Stamps:
    """One request's, from its arrival; each place is stamped when it is first reached."""

    arrived_at: float = field(default_factory=monotonic)
    parked_at: float = 0.0
    adapter_came_at: float = 0.0
    started_at: float = 0.0

    def park(self) -> None:
        """It waits for its adapter."""
        self.parked_at = self.parked_at or monotonic()

    def adapter_came(self) -> None:
        self.adapter_came_at = monotonic()

    def start(self) -> None:
        """It was scheduled; a request that was preempted starts again, which is not stamped."""
        self.started_at = self.started_at or monotonic()

    def timing(self) -> RequestTiming:
        """What the output with the first token tells, now."""
        return RequestTiming(
            queue_seconds=self.started_at - self.arrived_at,
            adapter_after_seconds=self.parked_at - self.arrived_at if self.parked_at else 0.0,
            adapter_seconds=self.adapter_came_at - self.parked_at,
            prefill_seconds=monotonic() - self.started_at,
        )
