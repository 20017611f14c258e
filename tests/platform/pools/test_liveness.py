"""What a gateway takes a worker for, by a clock that the test moves."""

from loraplex.engine.protocol.messages import SILENCE_SECONDS, Heartbeat
from loraplex.engine.protocol.workers import WorkerLoad
from loraplex.platform.pools.liveness import Liveness
from loraplex.platform.pools.views import WorkerState

STEP_DEADLINE_SECONDS = 60.0
LOAD = WorkerLoad(0, 0, 8, 0, 0, 0, 0, 0, 0, 0)


class Watch:
    """A worker's life, and the time by which it is judged."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.life = Liveness(STEP_DEADLINE_SECONDS, lambda: self.seconds)

    def beat(self, step_running_seconds: float = 0.0, *, accepting: bool = True) -> None:
        self.life.heartbeat = Heartbeat("i", "w", 1, step_running_seconds, LOAD, accepting)
        self.life.hear()

    def begin(self) -> Liveness:
        self.beat()
        self.life.welcome()
        return self.life


def test_a_worker_lives_once_it_has_greeted_back_and_until_it_falls_silent() -> None:
    watch = Watch()
    watch.beat()
    assert (watch.life.state, watch.life.is_heard) == (WorkerState.CONNECTING, True)
    watch.life.welcome()
    assert watch.life.state is WorkerState.LIVE
    watch.seconds += SILENCE_SECONDS
    assert (watch.life.state, watch.life.is_heard) == (WorkerState.LOST, False)
    watch.beat()
    assert watch.life.state is WorkerState.LIVE


def test_silence_in_which_nobody_listened_is_forgiven() -> None:
    watch = Watch()
    life = watch.begin()
    watch.seconds += 2 * SILENCE_SECONDS
    life.forgive(2 * SILENCE_SECONDS)
    assert life.state is WorkerState.LIVE


def test_a_worker_that_is_stuck_in_a_step_is_lost_although_it_is_heard() -> None:
    watch = Watch()
    life = watch.begin()
    watch.beat(step_running_seconds=STEP_DEADLINE_SECONDS + 1)
    assert (life.state, life.is_heard) == (WorkerState.LOST, True)


def test_a_worker_that_is_shutting_down_lives_and_gets_nothing_new() -> None:
    watch = Watch()
    life = watch.begin()
    assert life.is_routable
    watch.beat(accepting=False)
    assert (life.state, life.is_routable) == (WorkerState.LIVE, False)


def test_a_connection_that_broke_is_lost_until_the_worker_greets_again() -> None:
    watch = Watch()
    life = watch.begin()
    life.disconnect()
    assert (life.state, life.is_heard) == (WorkerState.LOST, True)
    life.welcome()
    assert life.state is WorkerState.LIVE


def test_nothing_is_heard_of_whom_the_gateway_has_hung_up_on() -> None:
    life = Watch().begin()
    life.is_closed = True
    assert (life.state, life.is_heard) == (WorkerState.LOST, False)
