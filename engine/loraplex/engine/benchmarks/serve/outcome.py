"""What became of one request, in one process's clock, and the latencies that follow from it."""

from dataclasses import dataclass, field
from itertools import pairwise

from loraplex.engine.protocol.objectives import Objective, Objectives


@dataclass
class Outcome:
    """Times are `time.perf_counter` seconds of the client.

    Every latency counts from `intended_at`, when the request was to arrive: a client or a
    connection that is late must not make the server look fast ("coordinated omission").
    """

    model: str
    intended_at: float
    sent_at: float = 0.0
    token_times: list[float] = field(default_factory=list)
    """One for each event that carried output; an event may carry several tokens."""
    output_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    ended_at: float = 0.0
    error: str | None = None
    """The kind of failure; None for a complete answer."""

    @property
    def lag(self) -> float:
        """How late this client sent it."""
        return self.sent_at - self.intended_at

    @property
    def ttft(self) -> float:
        """Time to first token."""
        return self.token_times[0] - self.intended_at

    @property
    def e2e(self) -> float:
        """Time to the last token."""
        return self.token_times[-1] - self.intended_at

    @property
    def tpot(self) -> float | None:
        """Time per output token after the first; None for a single token, which has none."""
        if self.output_tokens < 2:
            return None
        return (self.token_times[-1] - self.token_times[0]) / (self.output_tokens - 1)

    @property
    def itls(self) -> list[float]:
        """Inter-token latencies: the gaps between events that carried output."""
        return [later - earlier for earlier, later in pairwise(self.token_times)]

    def meets(self, slo: Objectives) -> bool:
        """Whether it is complete and within every limit; what has no TPOT meets any."""
        if self.error is not None:
            return False
        values = {
            Objective.TTFT: self.ttft,
            Objective.TPOT: self.tpot or 0.0,
            Objective.E2E: self.e2e,
        }
        return all(values[metric] <= limit for metric, limit in slo.items())
