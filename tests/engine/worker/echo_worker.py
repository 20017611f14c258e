"""Workers around an EchoEngine: in this process, or as a process of their own that can be killed.

`python -m tests.engine.worker.echo_worker STEP_SECONDS` reads the same environment as the real
worker process.
"""

import os
import signal
import sys

from loraplex.engine.protocol.identity import digest_of_bytes
from loraplex.engine.protocol.workers import Role
from loraplex.engine.serving.environment import WorkerEnvironment
from loraplex.engine.serving.identity import WorkerIdentity
from loraplex.engine.serving.registration import Controller
from loraplex.engine.serving.server import WorkerServer
from tests.engine.worker.echo_engine import EchoEngine

BASE_NAME = "echo"


def echo_identity(worker_id: str, base_name: str = BASE_NAME) -> WorkerIdentity:
    digest = digest_of_bytes(base_name.encode())
    return WorkerIdentity(worker_id, "default", Role.UNIFIED, base_name, digest)


def main() -> int:
    environment = WorkerEnvironment.read(os.environ)
    server = WorkerServer(
        EchoEngine(step_seconds=float(sys.argv[1])),
        echo_identity(environment.worker_id, environment.config.base_name),
        gateway_public_key=environment.gateway_public_key,
        host=environment.host,
    )
    signal.signal(signal.SIGTERM, lambda *_: server.ended.put(None))
    controller = Controller(environment.controller_url, environment.token, server.registration)
    server.start().announce(controller)
    failure = server.ended.get()
    server.stop()
    return 0 if failure is None else 1


if __name__ == "__main__":
    sys.exit(main())
