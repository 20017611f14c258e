"""How far the engine thread has come: written by it alone, read by the heartbeat thread."""

import time

from loraplex.engine.protocol.workers import WorkerLoad


class Progress:
    """Plain attributes, each replaced whole, so a reader never needs a lock."""

    def __init__(self, load: WorkerLoad) -> None:
        self.step = 0
        self.load = load
        self.in_flight_requests = 0
        self._busy_since: float | None = None

    def begin(self) -> None:
        """The engine thread starts to work and may be away for seconds."""
        self._busy_since = time.monotonic()

    def rest(self) -> None:
        """There was nothing to do."""
        self._busy_since = None

    def finish(self, load: WorkerLoad, in_flight_requests: int) -> None:
        """A step is done."""
        self.step += 1
        self.load = load
        self.in_flight_requests = in_flight_requests
        self._busy_since = None

    @property
    def busy_seconds(self) -> float:
        """How long the engine thread has been in its current step; 0 between steps."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def is_idle(self) -> bool:
        """Nothing in flight, nothing being worked on."""
        return self._busy_since is None and self.in_flight_requests == 0
