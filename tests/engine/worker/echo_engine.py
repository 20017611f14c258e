"""A deterministic engine for tests of what surrounds one: it repeats the prompt, a token a step."""

import threading
import time
from dataclasses import dataclass

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import PromptTooLong
from loraplex.engine.protocol.generation import (
    FinishReason,
    GenerationRequest,
    RequestOutput,
    RequestTiming,
)
from loraplex.engine.protocol.identity import Digest, TenantNamespace
from loraplex.engine.protocol.workers import AdaptersInUse, WorkerLimits, WorkerLoad

MAX_TOKENS = 4096
POISON = 666
"""A prompt that begins with this token makes its step fail."""


@dataclass
class Running:
    request: GenerationRequest
    output_tokens: int = 0


class EchoEngine:
    """Output token i is prompt token i modulo the prompt's length. A step takes `step_seconds`."""

    def __init__(self, step_seconds: float = 0.0) -> None:
        self.running: dict[str, Running] = {}
        self.cancelled: list[str] = []
        self.foretold: list[AdapterRef] = []
        self.pinned: set[tuple[TenantNamespace, Digest]] = set()
        self.allowed = threading.Event()
        self.allowed.set()
        self.step_seconds = step_seconds
        self._wakeup = threading.Event()

    def add(self, request: GenerationRequest) -> None:
        wanted = len(request.prompt_token_ids) + request.sampling.max_tokens
        if wanted > MAX_TOKENS:
            raise PromptTooLong(
                f"{wanted} tokens never fit {MAX_TOKENS}.",
                field="messages",
                rule=f"at most {MAX_TOKENS} tokens",
                value=wanted,
            )
        self.running[request.request_id] = Running(request)

    def cancel(self, request_id: str) -> None:
        if request_id in self.running:
            self.cancelled.append(request_id)

    def pin(self, ref: AdapterRef) -> None:
        self.pinned.add((ref.namespace, ref.spec.digest))

    def unpin(self, key: tuple[TenantNamespace, Digest]) -> None:
        self.pinned.remove(key)

    def foretell(self, adapter: AdapterRef) -> None:
        self.foretold.append(adapter)

    def step(self) -> list[RequestOutput]:
        """Waits while a test has cleared `allowed`, as a long step would."""
        self.allowed.wait()
        time.sleep(self.step_seconds)
        outputs = [self._end(one) for one in dict.fromkeys(self.cancelled) if one in self.running]
        self.cancelled.clear()
        if any(one.request.prompt_token_ids[0] == POISON for one in self.running.values()):
            raise ZeroDivisionError("a poisoned prompt")
        return outputs + [self._advance(one) for one in list(self.running.values())]

    def wait_for_work(self, timeout_seconds: float) -> bool:
        if not self.running and not self.cancelled:
            self._wakeup.wait(timeout_seconds)
        self._wakeup.clear()
        return bool(self.running or self.cancelled)

    def wake(self) -> None:
        self._wakeup.set()

    def load(self) -> WorkerLoad:
        return WorkerLoad(len(self.running), 0, 100, 0, 0, 0, 0, 0, 0, 0)

    def adapters_in_use(self) -> AdaptersInUse:
        used = [one.request.adapter for one in list(self.running.values())]
        return AdaptersInUse(running=tuple(ref.spec.digest for ref in used if ref is not None))

    def limits(self) -> WorkerLimits:
        return WorkerLimits(MAX_TOKENS, MAX_TOKENS, 16, 4096, 256, 64)

    def _advance(self, one: Running) -> RequestOutput:
        prompt = one.request.prompt_token_ids
        token = prompt[one.output_tokens % len(prompt)]
        one.output_tokens += 1
        is_last = one.output_tokens == one.request.sampling.max_tokens
        if is_last:
            del self.running[one.request.request_id]
        return RequestOutput(
            request_id=one.request.request_id,
            token_ids=[token],
            output_tokens=one.output_tokens,
            finish_reason=FinishReason.LENGTH if is_last else None,
            timing=RequestTiming(0.0, 0.0, 0.0, 0.0) if one.output_tokens == 1 else None,
        )

    def _end(self, request_id: str) -> RequestOutput:
        return RequestOutput(
            request_id=request_id,
            token_ids=[],
            output_tokens=self.running.pop(request_id).output_tokens,
            finish_reason=FinishReason.CANCELLED,
        )
