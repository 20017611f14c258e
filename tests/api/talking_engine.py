"""An EchoEngine that also tells log-probabilities, which a test can work out."""

import msgspec

from loraplex.engine.protocol.messages import RequestOutput, TokenLogprob
from tests.engine.worker.echo_engine import EchoEngine, Running


class TalkingEngine(EchoEngine):
    """Token t has the log-probability -t; the alternatives are t + 1, t + 2, …"""

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
