"""A worker process whose engine repeats the prompt, and writes down what it generates.

`python -m tests.e2e.chaos.journal_worker STEP_SECONDS JOURNAL_FOLDER`. The journal, one file a
process, is what the worker's own counts are held against: it outlives a kill.
"""

import os
import signal
import sys
from pathlib import Path

import msgspec

from loraplex.engine.protocol.generation import GenerationRequest, RequestOutput
from loraplex.engine.serving.environment import WorkerEnvironment
from loraplex.engine.serving.registration import Controller
from loraplex.engine.serving.server import WorkerServer
from tests.api.talking_engine import TalkingEngine
from tests.engine.worker.echo_worker import echo_identity

GATEWAY_SILENCE_SECONDS = 2.0
"""Shorter than a gateway's lease, as in the real worker."""


class JournalingEngine(TalkingEngine):
    """Half of each prompt counts as found in the cache."""

    def __init__(self, step_seconds: float, journal: Path) -> None:
        super().__init__(step_seconds)
        self._journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._requests: dict[str, GenerationRequest] = {}

    def add(self, request: GenerationRequest) -> None:
        self._requests[request.request_id] = request
        super().add(request)

    def step(self) -> list[RequestOutput]:
        outputs = [self._with_cached(output) for output in super().step()]
        lines = [self._line(output) for output in outputs]
        os.write(self._journal, "".join(lines).encode())
        return outputs

    def _with_cached(self, output: RequestOutput) -> RequestOutput:
        prompt = self._requests[output.request_id].prompt_token_ids
        return msgspec.structs.replace(output, cached_tokens=len(prompt) // 2)

    def _line(self, output: RequestOutput) -> str:
        request = self._requests[output.request_id]
        prompt_tokens = len(request.prompt_token_ids)
        counts = (prompt_tokens, output.cached_tokens, output.output_tokens)
        return f"{output.request_id} {request.attempt} {' '.join(map(str, counts))}\n"


def main() -> int:
    environment = WorkerEnvironment.read(os.environ)
    journal = Path(sys.argv[2]) / f"{os.getpid()}.journal"
    server = WorkerServer(
        JournalingEngine(float(sys.argv[1]), journal),
        echo_identity(environment.worker_id, environment.config.base_name),
        gateway_public_key=environment.gateway_public_key,
        host=environment.host,
        gateway_silence_seconds=GATEWAY_SILENCE_SECONDS,
    )
    signal.signal(signal.SIGTERM, lambda *_: server.ended.put(None))
    controller = Controller(environment.controller_url, environment.token, server.registration)
    server.start().announce(controller)
    failure = server.ended.get()
    server.stop()
    return 0 if failure is None else 1


if __name__ == "__main__":
    sys.exit(main())
