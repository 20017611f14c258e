"""When a call's tokens came, for the metrics."""

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

from loraplex.api.text.choice_text import Piece

if TYPE_CHECKING:
    from loraplex.api.metrics import Metrics
    from loraplex.api.openai.call import Choice


class CallClock:
    """Measures one call from its admission to its end."""

    def __init__(self, metrics: "Metrics", base_name: str) -> None:
        self._metrics = metrics
        self._base_name = base_name
        self._started = monotonic()
        self._first: float | None = None

    @property
    def ttft_ms(self) -> int | None:
        """Milliseconds from admission to the first output; None before it."""
        return None if self._first is None else round(1000 * (self._first - self._started))

    @property
    def elapsed_ms(self) -> int:
        """Milliseconds since admission."""
        return round(1000 * (monotonic() - self._started))

    def see(self, piece: Piece) -> None:
        """A piece has come."""
        if self._first is None:
            self._first = monotonic()
            self._metrics.time_to_first_token.labels(self._base_name).observe(
                self._first - self._started
            )

    def finish(self, outcome: str, prompt_tokens: int, choices: Sequence["Choice"]) -> None:
        """The call has ended; count what it used."""
        metrics, base, now = self._metrics, self._base_name, monotonic()
        metrics.calls.labels(base, outcome).inc()
        metrics.call_seconds.labels(base).observe(now - self._started)
        if self._first is None:
            return
        metrics.prompt_tokens.labels(base).inc(prompt_tokens)
        metrics.generation_tokens.labels(base).inc(sum(c.text.output_tokens for c in choices))
        longest = max(choice.text.output_tokens for choice in choices)
        if longest > 1:
            metrics.time_per_output_token.labels(base).observe((now - self._first) / (longest - 1))
        for choice in choices:
            if choice.text.finish_reason is not None:
                metrics.finished.labels(base, choice.text.finish_reason.value).inc()
