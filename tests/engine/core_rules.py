"""What every state machine of the core does, whatever the device: cancel, load, step, end.

The loader has no threads: the machine says when a load ends, so that every run repeats.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from loraplex.engine.adapter_source import AdapterSource
from loraplex.engine.core import EngineCore
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import AdapterUnavailable
from loraplex.engine.protocol.generation import FinishReason
from tests.engine.driving import Answer

PAGES = 18
"""A pool in which few requests fit side by side."""
STEPS_LIMIT = 3000
"""Far more than all requests of a run need one after the other."""


class Source(AdapterSource):
    """Serves local files unless told to fail."""

    is_failing = False

    def fetch(self, ref: AdapterRef) -> Path:
        if self.is_failing:
            raise AdapterUnavailable("The store is gone.")
        return Path(ref.url)


@dataclass(frozen=True)
class Wanted:
    """A request's adapter, and the tokens it gets when it runs alone."""

    adapter: AdapterRef | None
    token_ids: Sequence[int]


class CoreRules(RuleBasedStateMachine):
    """A subclass makes `engine` with `source`, a pool of PAGES and no loader threads."""

    engine: EngineCore

    def __init__(self) -> None:
        super().__init__()
        self.source = Source()
        self.ended_loads = 0
        self.wanted: dict[str, Wanted] = {}
        self.answers: dict[str, Answer] = {}
        self.cancelled: set[str] = set()
        self.broken: set[str] = set()
        """Whose step failed, so that they may fail without an adapter."""

    @property
    def live(self) -> list[str]:
        ended = {name for name, answer in self.answers.items() if answer.finish_reason}
        return [name for name in self.wanted if name not in ended]

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.live))
        self.engine.cancel(name)
        self.cancelled.add(name)

    @property
    def unfinished_loads(self) -> int:
        return self.engine._residency.loads_in_flight - self.ended_loads

    @precondition(lambda self: self.unfinished_loads)
    @rule(fails=st.sampled_from([False, False, False, True]))
    def end_a_load(self, fails: bool) -> None:
        self.source.is_failing = fails
        self.engine._loader.run_one()
        self.ended_loads += 1

    @rule(steps=st.integers(1, 6))
    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        self.ended_loads = 0
        for output in self.engine.step():
            self.answers.setdefault(output.request_id, Answer()).take(output)
        self.engine.check_integrity()

    @invariant()
    def tokens_are_those_of_the_request_alone(self) -> None:
        for name, answer in self.answers.items():
            wanted = list(self.wanted[name].token_ids)
            assert answer.token_ids == wanted[: len(answer.token_ids)]

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        steps = 0
        while self.engine.has_work:
            if not self.engine.wait_for_work(0):
                assert self.unfinished_loads, "a request is stuck"
                self.end_a_load(fails=False)
            self.step()
            steps += 1
            assert steps < STEPS_LIMIT, "a request never ends"
        self.every_request_has_ended_once_and_rightly()
        while self.unfinished_loads:
            self.end_a_load(fails=False)
        self.step()
        load = self.engine.load()
        assert (load.kv_pages, load.running_requests, load.waiting_requests) == (0, 0, 0)
        assert load.free_pages + load.adapter_pages + load.cached_pages == PAGES
        assert load.stalls == 0
        self.engine.close()

    def every_request_has_ended_once_and_rightly(self) -> None:
        for name, wanted in self.wanted.items():
            answer = self.answers[name]
            assert answer.finish_reason is not None, "every request ends"
            if answer.finish_reason is FinishReason.LENGTH:
                assert answer.token_ids == list(wanted.token_ids)
            elif answer.finish_reason is FinishReason.CANCELLED:
                assert name in self.cancelled
            else:
                assert wanted.adapter is not None or name in self.broken
