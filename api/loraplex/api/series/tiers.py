"""Where workers' adapters lie, and what each tier has done."""

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from loraplex.engine.protocol.workers import TierLoad

TIER_LABELS = ("model_name", "engine", "tier")


@dataclass(frozen=True)
class TierSeries:
    """One series of every tier where a worker's adapters lie."""

    name: str
    help_text: str
    value: Callable[[TierLoad], float]
    is_total: bool = True

    def family(self) -> CounterMetricFamily | GaugeMetricFamily:
        kind = CounterMetricFamily if self.is_total else GaugeMetricFamily
        return kind(f"loraplex_adapter_tier_{self.name}", self.help_text, labels=TIER_LABELS)


TIER_SERIES = (
    TierSeries("hits", "Adapters found in this tier.", lambda load: load.hits),
    TierSeries("misses", "Adapters asked of the next tier.", lambda load: load.misses),
    TierSeries(
        "bytes",
        "Bytes in this tier; of the store, bytes fetched.",
        lambda load: load.bytes,
        is_total=False,
    ),
    TierSeries(
        "budget_bytes",
        "What the tier may hold; 0 of the store.",
        lambda load: load.budget_bytes,
        is_total=False,
    ),
    TierSeries("evictions", "Adapters that made room for others.", lambda load: load.evictions),
    TierSeries(
        "load_seconds",
        "Seconds spent on bringing adapters here; of the store, on fetching them.",
        lambda load: load.load_seconds,
    ),
    TierSeries("joins", "Waits for a load that somebody else had begun.", lambda load: load.joins),
    TierSeries("corrupt", "Files put aside for wrong bytes.", lambda load: load.corrupt),
)
