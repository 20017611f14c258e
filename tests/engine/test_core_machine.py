"""The whole core on a fake device, under everything at once: nothing lost, stuck, or wrong."""

import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from loraplex.engine.memory.residency import AdapterKey, key_of
from loraplex.engine.protocol.errors import (
    AdapterTooLarge,
    EngineFailure,
    PinLeavesNoRoom,
    PromptTooLong,
)
from loraplex.engine.protocol.generation import GenerationRequest, Priority
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.request import Request
from loraplex.engine.scheduler.plan import StepPlan
from tests.engine.core_rules import PAGES, CoreRules, Wanted
from tests.engine.driving import greedy
from tests.engine.fake_device import (
    VOCABULARY,
    FakeAdapter,
    expected_tokens,
    make_fake_adapter,
    make_fake_engine,
)

TENANTS = ("one", "two", "three")
STREAMS = [[(17 * place + 5 * stream) % VOCABULARY for place in range(40)] for stream in range(2)]
"""Prompts are beginnings of these, so that many share blocks."""


@cache
def adapters() -> dict[str, list[FakeAdapter]]:
    """Each tenant's own, from one page to five; two tenants have one in common."""
    folder = Path(tempfile.mkdtemp())
    return {
        tenant: [
            make_fake_adapter(folder, seed, rank, tenant)
            for seed, rank in ((number, 1), (number, 2), (7, 4), (number, 5))
        ]
        for number, tenant in enumerate(TENANTS)
    }


@cache
def too_large() -> FakeAdapter:
    return make_fake_adapter(Path(tempfile.mkdtemp()), 9, PAGES, "one")


class CoreMachine(CoreRules):
    """The rules of every core, and what only a fake device can do: break, and be watched."""

    steps_ahead = 0

    @initialize(running=st.integers(1, 6), budget=st.integers(1, 12))
    def start(self, running: int, budget: int) -> None:
        self.engine, self.device = make_fake_engine(
            PAGES,
            adapters=self.source,
            max_running_requests=running,
            max_step_tokens=budget,
            steps_ahead=self.steps_ahead,
        )
        self.preempted: set[tuple[str, str, Priority]] = set()
        self.pinned: dict[AdapterKey, int] = {}
        self.pinned_and_loaded: set[AdapterKey] = set()
        self.watch_preemptions()

    def watch_preemptions(self) -> None:
        """Record who lost its pages to whom."""
        scheduler = self.engine._scheduler
        grow, preempt = scheduler._grow, scheduler._preempt
        growing: list[Request] = []

        def watched_grow(request: Request, tokens: int, plan: StepPlan) -> bool:
            growing.append(request)
            return grow(request, tokens, plan)

        def watched_preempt(request: Request, plan: StepPlan) -> None:
            winner, victim = growing[-1], request
            if victim.priority == winner.priority:
                pair = (winner.request_id, victim.request_id, victim.priority)
                assert (pair[1], pair[0], pair[2]) not in self.preempted, "equals in turn"
                self.preempted.add(pair)
            assert victim.priority >= winner.priority
            preempt(victim, plan)

        scheduler._grow = watched_grow  # type: ignore[method-assign]
        scheduler._preempt = watched_preempt  # type: ignore[method-assign]

    @rule(
        tenant=st.sampled_from(TENANTS),
        adapter=st.none() | st.integers(0, 3),
        stream=st.sampled_from(STREAMS),
        length=st.integers(1, 30),
        own=st.lists(st.integers(0, VOCABULARY - 1), max_size=3),
        max_tokens=st.integers(1, 12),
        priority=st.sampled_from(Priority),
        weight=st.sampled_from([0.5, 1.0, 4.0]),
        public_tokens=st.sampled_from([0, 0, 9]),
        use_prefix_cache=st.sampled_from([True, True, True, False]),
    )
    def arrive(
        self,
        tenant: str,
        adapter: int | None,
        stream: list[int],
        length: int,
        own: list[int],
        max_tokens: int,
        priority: Priority,
        weight: float,
        public_tokens: int,
        use_prefix_cache: bool,
    ) -> None:
        prompt = stream[:length] + own
        chosen = None if adapter is None else adapters()[tenant][adapter]
        request = GenerationRequest(
            request_id=f"r{len(self.wanted)}",
            namespace=TenantNamespace(tenant),
            prompt_token_ids=prompt,
            sampling=greedy(max_tokens),
            adapter=None if chosen is None else chosen.ref,
            priority=priority,
            fair_weight=weight,
            public_prefix_tokens=public_tokens,
            use_prefix_cache=use_prefix_cache,
        )
        try:
            self.engine.add(request)
        except (PromptTooLong, AdapterTooLarge):
            assert self.pinned, "everything that is drawn fits into the whole pool"
            return
        fingerprint = 0 if chosen is None else chosen.fingerprint
        tokens = expected_tokens(prompt, fingerprint, max_tokens)
        self.wanted[request.request_id] = Wanted(request.adapter, tokens)

    @rule()
    def refuse_what_never_fits(self) -> None:
        never = GenerationRequest(
            request_id="x",
            namespace=TenantNamespace("one"),
            prompt_token_ids=[5] * (4 * PAGES),
            sampling=greedy(2),
        )
        with pytest.raises(PromptTooLong):
            self.engine.add(never)
        with pytest.raises(AdapterTooLarge):
            self.engine.add(
                GenerationRequest(
                    request_id="x",
                    namespace=TenantNamespace("one"),
                    prompt_token_ids=[5],
                    sampling=greedy(1),
                    adapter=too_large().ref,
                )
            )

    @rule(tenant=st.sampled_from(TENANTS), adapter=st.integers(0, 3))
    def pin(self, tenant: str, adapter: int) -> None:
        """Granted unless it would take the room of somebody who is here, or of everybody else."""
        ref = adapters()[tenant][adapter].ref
        key = key_of(ref)
        pages = self.pinned | {key: self.engine._layouts.of(ref).pages}
        left = PAGES - sum(pages.values())
        others = [one for one in self.engine._requests.values() if one.adapter_key not in pages]
        try:
            self.engine.pin(ref)
        except PinLeavesNoRoom:
            assert key not in self.pinned
            return
        self.pinned = pages
        assert left >= PAGES // 2
        assert all(one.most_pages <= left for one in others)

    @precondition(lambda self: self.pinned)
    @rule(data=st.data())
    def unpin(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(list(self.pinned)))
        self.engine.unpin(key)
        del self.pinned[key]
        self.pinned_and_loaded.discard(key)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def spoil_a_request(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.live))
        self.device.bad_requests[name] = EngineFailure("Its logits are not numbers.")
        self.broken.add(name)

    @rule(before_it_begins=st.booleans())
    def break_a_step(self, before_it_begins: bool) -> None:
        if before_it_begins:
            self.device.submit_error = ZeroDivisionError("while it was assembled")
        else:
            self.device.step_error = ZeroDivisionError("while it ran")
        self.broken |= set(self.live)
        self.step()
        self.device.submit_error = self.device.step_error = None

    def step(self) -> None:
        super().step()
        for key in self.pinned:
            entry = self.engine._residency.get(key)
            assert entry is not None or key not in self.pinned_and_loaded, "it was pinned"
            if entry is not None and not entry.is_loading:
                self.pinned_and_loaded.add(key)


class RunningAheadMachine(CoreMachine):
    """The device is asynchronous: a step is submitted before the one before it has been read."""

    steps_ahead = 1


SETTINGS = settings(
    stateful_step_count=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestCore = CoreMachine.TestCase
TestCore.settings = SETTINGS
TestCoreRunningAhead = RunningAheadMachine.TestCase
TestCoreRunningAhead.settings = SETTINGS
