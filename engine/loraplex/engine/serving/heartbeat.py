"""The heartbeat thread: says that the process lives and how far its engine thread has come."""

from collections.abc import Callable
from threading import Event

import msgspec
import zmq

from loraplex.engine.protocol.messages import HEARTBEAT_SECONDS, Heartbeat
from loraplex.engine.protocol.workers import AdaptersInUse
from loraplex.engine.serving.authentication import protect
from loraplex.engine.serving.identity import WorkerIdentity
from loraplex.engine.serving.process_use import process_use
from loraplex.engine.serving.progress import Progress
from loraplex.engine.serving.transport import bind


class Heartbeats:
    """Owns the PUB socket. A step of seconds delays no heartbeat; a dead engine is not hidden."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        identity: WorkerIdentity,
        progress: Progress,
        *,
        host: str,
        is_accepting: Callable[[], bool],
        adapters_in_use: Callable[[], AdaptersInUse],
    ) -> None:
        self._identity = identity
        self._progress = progress
        self._is_accepting = is_accepting
        self._adapters_in_use = adapters_in_use
        self._beat_now = Event()
        self._encoder = msgspec.msgpack.Encoder()
        self._socket = context.socket(zmq.PUB)
        protect(self._socket, identity.curve)
        self._socket.linger = 500
        self.endpoint = bind(self._socket, host)

    def beat_now(self) -> None:
        """Send a heartbeat at once; from any thread."""
        self._beat_now.set()

    def run(self, stopping: Event) -> None:
        try:
            while not stopping.is_set():
                self._socket.send(self._encoder.encode(self._heartbeat()))
                self._beat_now.wait(HEARTBEAT_SECONDS)
                self._beat_now.clear()
        finally:
            self._socket.close()

    def _heartbeat(self) -> Heartbeat:
        return Heartbeat(
            incarnation=self._identity.incarnation,
            worker_id=self._identity.worker_id,
            step=self._progress.step,
            step_running_seconds=self._progress.busy_seconds,
            load=self._progress.load,
            accepting=self._is_accepting(),
            adapters=self._adapters_in_use(),
            process=process_use(),
        )
