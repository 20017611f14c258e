"""When a call's tokens came: for the metrics, and against what its class of service promises."""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from loraplex.api.openai.outcomes import CANCELLED
from loraplex.api.series.calls import FAILED, MET, CallMetrics
from loraplex.api.series.tenants import TenantLabels
from loraplex.engine.protocol.errors import DomainError, Kind
from loraplex.engine.protocol.generation import RequestOutput, RequestTiming
from loraplex.platform.slo.classes import SloClass
from loraplex.platform.tenancy.principals import TenantPrincipal

if TYPE_CHECKING:
    from loraplex.api.openai.call import Choice


class CallClock:
    """Measures one call from its arrival to its end, in this process's monotonic time.

    What the worker tells of its own time (`timing`) is durations by the worker's clock.
    """

    def __init__(
        self,
        metrics: CallMetrics,
        *,
        base_name: str,
        slo_class: SloClass,
        tenant: str,
        arrived_at: float,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`tenant` is a label's value."""
        self._metrics = metrics
        self._labels = base_name, slo_class.name, tenant
        self._series = metrics.of(*self._labels)
        self._slo_class = slo_class
        self._clock = clock
        self._arrived_at = arrived_at
        self._first_at: dict[int, float] = {}
        self._last_at: dict[int, float] = {}
        self.timing: RequestTiming | None = None
        """Of the choice that came first."""

    @property
    def ttft_ms(self) -> int | None:
        """Milliseconds to the first output; None before it."""
        return None if self.ttft_seconds is None else round(1000 * self.ttft_seconds)

    @property
    def queue_ms(self) -> int | None:
        """Milliseconds it waited on the worker; None before its first output."""
        return None if self.timing is None else round(1000 * self.timing.queue_seconds)

    @property
    def elapsed_ms(self) -> int:
        """Milliseconds since the arrival."""
        return round(1000 * self.elapsed_seconds)

    @property
    def ttft_seconds(self) -> float | None:
        """From the arrival to the first token of any choice."""
        return min(self._first_at.values()) - self._arrived_at if self._first_at else None

    @property
    def elapsed_seconds(self) -> float:
        """From the arrival to now."""
        return self._clock() - self._arrived_at

    @property
    def e2e_seconds(self) -> float:
        """From the arrival to the last token that came, or to now where none did."""
        if not self._last_at:
            return self.elapsed_seconds
        return max(self._last_at.values()) - self._arrived_at

    def see(self, index: int, output: RequestOutput) -> None:
        """An output of a choice has come."""
        if not output.token_ids:
            return
        now = self._clock()
        last_at = self._last_at.get(index)
        self._last_at[index] = now
        if last_at is not None:
            self._series.inter_token.observe(now - last_at)
            return
        if not self._first_at:
            self._series.time_to_first_token.observe(now - self._arrived_at)
        self._first_at[index] = now
        if (timing := output.timing) is not None:
            self._series.queue.observe(timing.queue_seconds)
            self._series.prefill.observe(timing.prefill_seconds)
            self.timing = self.timing or timing

    def refuse(self, failure: Exception | None) -> None:
        """The call was not admitted; it counts against its class where that is our doing."""
        if failure is not None and is_ours(failure):
            self._metrics.slo_requests.labels(*self._labels, FAILED).inc()

    def finish(
        self,
        outcome: str,
        prompt_tokens: int,
        choices: Sequence["Choice"],
        failure: Exception | None = None,
    ) -> None:
        """An admitted call has ended; count what it used, and whether it was good."""
        series = self._series
        self._metrics.ended.labels(self._labels[0], outcome).inc()
        series.end_to_end.observe(self.e2e_seconds)
        mean_seconds = [self._tpot(choice) for choice in choices]
        tpots = [one for one in mean_seconds if one is not None]
        if (result := self._result(outcome, failure, max(tpots, default=None))) is not None:
            self._metrics.slo_requests.labels(*self._labels, result).inc()
        if not self._first_at:
            return
        series.prompt_tokens.inc(prompt_tokens)
        series.generation_tokens.inc(sum(choice.text.output_tokens for choice in choices))
        for tpot in tpots:
            series.time_per_output_token.observe(tpot)
        for choice in choices:
            if choice.text.finish_reason is not None:
                reason = choice.text.finish_reason.value
                self._metrics.finished.labels(self._labels[0], reason).inc()

    def _tpot(self, choice: "Choice") -> float | None:
        first_at, tokens = self._first_at.get(choice.index), choice.text.output_tokens
        if first_at is None or tokens < 2:
            return None
        return (self._last_at[choice.index] - first_at) / (tokens - 1)

    def _result(self, outcome: str, failure: Exception | None, tpot: float | None) -> str | None:
        """None where it cannot be told: the client was wrong, or left while all was well."""
        if failure is not None:
            return FAILED if is_ours(failure) else None
        ttft = self.elapsed_seconds if self.ttft_seconds is None else self.ttft_seconds
        missed = self._slo_class.missed(ttft, tpot, self.e2e_seconds)
        if missed is not None:
            return missed.value
        return None if outcome == CANCELLED else MET


class CallObservation:
    """Makes the clocks of one gateway's calls."""

    def __init__(
        self,
        metrics: CallMetrics,
        tenants: TenantLabels,
        slo_class_of: Callable[[TenantPrincipal], SloClass],
    ) -> None:
        self._metrics = metrics
        self._tenants = tenants
        self._slo_class_of = slo_class_of

    def clock(self, principal: TenantPrincipal, base_name: str, arrived_at: float) -> CallClock:
        return CallClock(
            self._metrics,
            base_name=base_name,
            slo_class=self._slo_class_of(principal),
            tenant=self._tenants.of(principal.tenant_name),
            arrived_at=arrived_at,
        )


def is_ours(failure: Exception) -> bool:
    """Whether a call failed by our doing rather than by what its client asked for."""
    return not isinstance(failure, DomainError) or failure.kind is Kind.OVERLOADED
