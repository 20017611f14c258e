"""One rate's outcomes as numbers: percentiles, throughput, errors by kind, goodput."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, Self

import msgspec
import numpy as np

from loraplex.engine.benchmarks.serve.outcome import Outcome
from loraplex.engine.protocol.objectives import Objectives

LAG_LIMIT_SECONDS: Final = 0.02
"""Where the client's p99 lag is beyond this, the client was too slow for the rate."""


class Latencies(msgspec.Struct, frozen=True):
    """Milliseconds; percentiles are interpolated linearly between the two nearest samples."""

    mean: float
    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Self | None:
        """None where there is no sample."""
        values = np.fromiter(seconds, dtype=np.float64) * 1e3
        if not values.size:
            return None
        p50, p90, p99 = (round(float(v), 3) for v in np.percentile(values, (50, 90, 99)))
        return cls(round(float(values.mean()), 3), p50, p90, p99)


class RateResult(msgspec.Struct, frozen=True, kw_only=True):
    """One offered rate. Rates and throughputs are per second of `duration_seconds`.

    That lasts from the start of the run to the last request's end, so what is still queued at the
    last arrival counts against the server.
    """

    url: str
    models: int
    process: str
    offered_rate: float
    """Requests a second that were to arrive, on average."""
    requests: int
    completed: int
    errors: dict[str, int]
    duration_seconds: float
    requests_per_s: float
    output_tokens_per_s: float
    prompt_tokens_per_s: float
    cached_tokens: int
    """Prompt tokens that the server says it found in a cache."""
    ttft_ms: Latencies | None
    tpot_ms: Latencies | None
    itl_ms: Latencies | None
    e2e_ms: Latencies | None
    slo_ms: dict[str, float]
    good: int | None
    """Requests that met every objective; None where none is set."""
    goodput_per_s: float | None
    client_lag_ms: Latencies | None
    client_kept_up: bool


def summarize(
    outcomes: Sequence[Outcome],
    slo: Objectives,
    *,
    started_at: float,
    url: str,
    process: str,
    offered_rate: float,
) -> RateResult:
    """`started_at` is the time from which arrivals count."""
    done = [outcome for outcome in outcomes if outcome.error is None]
    duration = max((outcome.ended_at for outcome in outcomes), default=started_at) - started_at
    lag = Latencies.of(outcome.lag for outcome in outcomes)
    good = sum(outcome.meets(slo) for outcome in done) if slo else None

    def per_second(amount: float) -> float:
        return round(amount / duration, 3) if duration > 0 else 0.0

    return RateResult(
        url=url,
        models=len({outcome.model for outcome in outcomes}),
        process=process,
        offered_rate=offered_rate,
        requests=len(outcomes),
        completed=len(done),
        errors=dict(sorted(Counter(o.error for o in outcomes if o.error is not None).items())),
        duration_seconds=round(duration, 3),
        requests_per_s=per_second(len(done)),
        output_tokens_per_s=per_second(sum(o.output_tokens for o in done)),
        prompt_tokens_per_s=per_second(sum(o.prompt_tokens for o in done)),
        cached_tokens=sum(o.cached_tokens for o in done),
        ttft_ms=Latencies.of(o.ttft for o in done),
        tpot_ms=Latencies.of(tpot for o in done if (tpot := o.tpot) is not None),
        itl_ms=Latencies.of(gap for o in done for gap in o.itls),
        e2e_ms=Latencies.of(o.e2e for o in done),
        slo_ms={metric.value: limit * 1e3 for metric, limit in slo.items()},
        good=good,
        goodput_per_s=None if good is None else per_second(good),
        client_lag_ms=lag,
        client_kept_up=lag is None or lag.p99 <= LAG_LIMIT_SECONDS * 1e3,
    )
