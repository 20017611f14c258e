"""An EchoEngine that also tells log-probabilities, which a test can work out."""

import msgspec

from loraplex.engine.protocol.generation import GenerationRequest, RequestOutput, TokenLogprob
from tests.engine.worker.echo_engine import EchoEngine, Running


class TalkingEngine(EchoEngine):
    """Token t has the log-probability -t; the alternatives are t + 1, t + 2, …

    `taken` keeps every request as it came.
    """

    def __init__(self, step_seconds: float = 0.0) -> None:
        super().__init__(step_seconds)
        self.taken: list[GenerationRequest] = []

    def add(self, request: GenerationRequest) -> None:
        self.taken.append(request)
        super().add(request)

    def _advance(self, one: Running) -> RequestOutput:
        output = super()._advance(one)
        wanted = one.request.sampling.logprobs
        if wanted is None:
            return output
        logprobs = [
            TokenLogprob(
                -float(token), [(token + k, -float(token + k)) for k in range(1, wanted + 1)]
            )
            for token in output.token_ids
        ]
        return msgspec.structs.replace(output, logprobs=logprobs)
