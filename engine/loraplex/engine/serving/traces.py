"""What a worker tells of a traced request: when it waited, for what, and when it was computed."""

from dataclasses import dataclass
from time import time_ns

from loraplex.engine.protocol.generation import GenerationRequest, RequestOutput, RequestTiming
from loraplex.engine.protocol.tracing import SpanKind, Tracing


@dataclass(slots=True)
class RequestTrace:
    """One request's, from its arrival (Unix nanoseconds)."""

    traceparent: str
    arrived_at_ns: int
    attributes: dict[str, str | int]
    timing: RequestTiming | None = None


class RequestTraces:
    """Follows requests that came with a traceparent. Durations are the engine's own."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._open: dict[str, RequestTrace] = {}

    def begin(self, request: GenerationRequest) -> None:
        if not self._tracing.is_on or request.traceparent is None:
            return
        attributes: dict[str, str | int] = {
            "loraplex.request_id": request.request_id,
            "gen_ai.usage.input_tokens": len(request.prompt_token_ids),
        }
        if request.adapter is not None:
            attributes["loraplex.adapter_digest"] = request.adapter.spec.digest
        self._open[request.request_id] = RequestTrace(request.traceparent, time_ns(), attributes)

    def see(self, output: RequestOutput) -> None:
        """An output goes out; the last one ends the trace."""
        if not self._open:
            return
        trace = self._open.get(output.request_id)
        if trace is None:
            return
        trace.timing = trace.timing or output.timing
        if output.finish_reason is not None:
            del self._open[output.request_id]
            self._tell(trace, output)

    def _tell(self, trace: RequestTrace, output: RequestOutput) -> None:
        assert output.finish_reason is not None, "it is the last"
        whole_seconds = (time_ns() - trace.arrived_at_ns) / 1e9
        parent = self._tracing.record(
            "worker",
            parent=trace.traceparent,
            started_at_ns=trace.arrived_at_ns,
            seconds=whole_seconds,
            kind=SpanKind.SERVER,
            attributes=trace.attributes
            | {
                "gen_ai.usage.output_tokens": output.output_tokens,
                "loraplex.cached_tokens": output.cached_tokens,
                "loraplex.finish_reason": output.finish_reason.value,
            },
        )
        timing = trace.timing
        if parent is None or timing is None:
            return
        first_token_after = timing.queue_seconds + timing.prefill_seconds

        def part(name: str, after: float, seconds: float) -> None:
            self._tracing.record(
                name,
                parent=parent,
                started_at_ns=trace.arrived_at_ns + round(after * 1e9),
                seconds=max(0.0, seconds),
            )

        part("queue", 0.0, timing.queue_seconds)
        if timing.adapter_seconds > 0:
            part("load adapter", timing.adapter_after_seconds, timing.adapter_seconds)
        part("prefill", timing.queue_seconds, timing.prefill_seconds)
        part("decode", first_token_after, whole_seconds - first_token_after)
