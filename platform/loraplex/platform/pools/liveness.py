"""Whether a worker lives, by what one gateway has heard of it, and when. Knows no sockets."""

from collections.abc import Callable

from loraplex.engine.protocol.messages import SILENCE_SECONDS, Heartbeat
from loraplex.platform.pools.views import WorkerState


class Liveness:
    """A worker lives that has greeted back, was heard of lately, and is not stuck in a step."""

    def __init__(self, step_deadline_seconds: float, clock: Callable[[], float]) -> None:
        self.heartbeat: Heartbeat | None = None
        """The last one."""
        self.is_closed = False
        """Whether this gateway has hung up."""
        self._step_deadline_seconds = step_deadline_seconds
        self._clock = clock
        self._heard_at = -SILENCE_SECONDS
        self._is_welcome = False
        self._was_live = False

    @property
    def state(self) -> WorkerState:
        if self._is_welcome and self.is_heard and not self._is_stuck:
            return WorkerState.LIVE
        return WorkerState.LOST if self._was_live else WorkerState.CONNECTING

    @property
    def is_heard(self) -> bool:
        """Whether the worker has said anything lately."""
        return not self.is_closed and self._clock() - self._heard_at < SILENCE_SECONDS

    @property
    def is_welcome(self) -> bool:
        """Whether the worker has greeted back, on the connection that there is."""
        return self._is_welcome

    @property
    def is_accepting(self) -> bool:
        return self.heartbeat is None or self.heartbeat.accepting

    @property
    def is_routable(self) -> bool:
        return self.state is WorkerState.LIVE and self.is_accepting

    @property
    def _is_stuck(self) -> bool:
        beat = self.heartbeat
        return beat is not None and beat.step_running_seconds > self._step_deadline_seconds

    def hear(self) -> None:
        """It has said something."""
        self._heard_at = self._clock()

    def welcome(self) -> None:
        self._is_welcome = self._was_live = True

    def disconnect(self) -> None:
        """It has to greet again, and may come back."""
        self._is_welcome = False

    def forgive(self, seconds: float) -> None:
        """Take back silence in which this gateway itself did not listen."""
        self._heard_at += seconds
