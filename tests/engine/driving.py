"""Drives an engine the way a worker does, checking every page after every step."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from loraplex.engine.adapter_source import AdapterSource
from loraplex.engine.core import EngineCore
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.generation import (
    FinishReason,
    GenerationRequest,
    RequestOutput,
    TokenLogprob,
)
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.sampling import SamplingParams

STUCK_SECONDS = 60.0


class LocalFiles(AdapterSource):
    """Serves adapters from the local path in their reference's URL."""

    def fetch(self, ref: AdapterRef) -> Path:
        return Path(ref.url)


@dataclass
class Answer:
    """All outputs of one request, joined."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    last: RequestOutput | None = None

    @property
    def finish_reason(self) -> FinishReason | None:
        return None if self.last is None else self.last.finish_reason

    def take(self, output: RequestOutput) -> None:
        assert self.finish_reason is None, "a request ends once"
        self.token_ids += output.token_ids
        self.logprobs += output.logprobs or []
        assert output.output_tokens == len(self.token_ids)
        self.last = output


def request(
    request_id: str,
    prompt: Iterable[int],
    sampling: SamplingParams,
    adapter: AdapterRef | None = None,
) -> GenerationRequest:
    return GenerationRequest(
        request_id=request_id,
        namespace=TenantNamespace("tests"),
        prompt_token_ids=list(prompt),
        sampling=sampling,
        adapter=adapter,
    )


def greedy(max_tokens: int, stop_token_ids: tuple[int, ...] = ()) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, temperature=0.0, stop_token_ids=stop_token_ids)


def step(engine: EngineCore, answers: dict[str, Answer]) -> None:
    """One step as soon as there is something to do."""
    assert engine.wait_for_work(STUCK_SECONDS), "the engine has work and waits for nothing"
    for output in engine.step():
        answers.setdefault(output.request_id, Answer()).take(output)
    engine.check_integrity()


def finish(engine: EngineCore, answers: dict[str, Answer] | None = None) -> dict[str, Answer]:
    """Step until every request has ended."""
    answers = {} if answers is None else answers
    while engine.has_work:
        step(engine, answers)
    return answers


def run(engine: EngineCore, *requests: GenerationRequest) -> dict[str, Answer]:
    """Requests that arrive together, to their end."""
    for one in requests:
        engine.add(one)
    return finish(engine)
