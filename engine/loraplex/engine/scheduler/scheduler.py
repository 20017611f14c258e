"""Hands out each step's token budget and the pool's pages. Knows neither tensors nor models."""

from enum import Enum, auto
from typing import Final

import numpy as np

from loraplex.engine.memory.geometry import PageGeometry
from loraplex.engine.memory.pool import PageId, PagePool
from loraplex.engine.memory.residency import AdapterResidency, ResidentAdapter
from loraplex.engine.protocol.errors import DomainError, EngineFailure
from loraplex.engine.request import Request, RequestState
from loraplex.engine.sampling.sampler import SampledToken
from loraplex.engine.scheduler.accounts import Accounts
from loraplex.engine.scheduler.assembly import AssembledStep
from loraplex.engine.scheduler.charges import input_cost
from loraplex.engine.scheduler.fair_queue import FairQueue
from loraplex.engine.scheduler.load_turns import LoadTurns
from loraplex.engine.scheduler.loads import AdapterLoads
from loraplex.engine.scheduler.plan import StepPlan
from loraplex.engine.scheduler.preemption import count_preemption, first_standing, last_in_order
from loraplex.engine.scheduler.prefixes import PrefixSharing
from loraplex.engine.scheduler.room import Room
from loraplex.engine.scheduler.rows import Integers, RunningRows
from loraplex.engine.scheduler.watchdog import Remedy, StallWatch

_SCAN_LIMIT: Final = 16
"""Requests looked at behind those held back, so that a step's cost stays bounded."""


class _Verdict(Enum):
    STARTED = auto()
    PARKED = auto()
    HELD_BACK = auto()
    NO_ROOM = auto()


class Scheduler:
    """Owns the requests' places: in line, parked with their adapter, running.

    Running requests come first: those that miss one token, then those that miss least, so that a
    long prompt takes what the decodes leave. Then requests are started and adapters loaded, both
    in fair order. A request starts with pages for all its tokens so far. When a running one cannot
    grow and nothing idle is left, the last in the order of preemption loses its pages and computes
    its tokens again later.
    """

    def __init__(
        self,
        geometry: PageGeometry,
        pool: PagePool,
        residency: AdapterResidency,
        room: Room,
        prefixes: PrefixSharing,
        loads: AdapterLoads,
        *,
        max_step_tokens: int,
        max_running_requests: int,
    ) -> None:
        self._geometry = geometry
        self._pool = pool
        self._residency = residency
        self._room = room
        self._prefixes = prefixes
        self._loads = loads
        self._adapter_line = loads.line
        self._rows = RunningRows(geometry.block_tokens)
        self._load_turns = LoadTurns(loads, room, residency, self._rows)
        self._max_step_tokens = max_step_tokens
        # A step must be able to give every running request its one token.
        self._max_running_requests = min(max_running_requests, max_step_tokens)
        self._line = FairQueue()
        self._watch = StallWatch()
        self._step = 0
        self._changes = 0
        """Moves whenever somebody's room may have grown: what found none need not ask before."""
        self._blocked: tuple[Request, int] | None = None
        self.accounts = Accounts()
        self.running: list[Request] = []
        self.ended_in_flight: set[Request] = set()
        """They ended while a step computed them, which still writes their pages."""
        self.must_settle = False
        """Whether steps in flight hold what would spare somebody a preemption."""
        self.waiting_requests = 0
        self.preemptions = 0
        self.cached_tokens = 0

    @property
    def stalls(self) -> int:
        return self._watch.stalls

    def add(self, request: Request) -> None:
        """Take a request that has been found to fit."""
        self._wait(request)

    def pins_changed(self) -> None:
        self._load_turns.reconsider()
        self._changes += 1

    def end(self, request: Request) -> None:
        """Take a request out, whatever its state, and free what it holds."""
        match request.state:
            case RequestState.RUNNING:
                self.running.remove(request)
                self._rows.is_running[request.row] = False
                if request.is_in_flight:
                    self.ended_in_flight.add(request)
                else:
                    self._release(request)
            case RequestState.PARKED:
                self._adapter_line.leave(request)
                self._leave_line(request)
            case RequestState.WAITING:
                self._leave_line(request)
            case RequestState.ENDED:
                return
        request.state = RequestState.ENDED
        if request.standing is not None:
            request.account.forgive(request.message.sampling.max_tokens - request.output_tokens)
        self.accounts.end(request.account)

    def begin(self, step: AssembledStep) -> None:
        """A step has been submitted."""
        self._rows.begin(step.rows, step.tokens)

    def settle(self, step: AssembledStep, *, has_failed: bool) -> int:
        """A submitted step is over; the blocks it filled may be shared. Returns prompt tokens."""
        rows = self._rows
        rows.in_flight[step.rows] -= 1
        prompt_tokens = 0
        if not has_failed:
            prompt_tokens = rows.settle(step.rows, step.tokens)
            for request in rows.held_by(rows.have_filled_a_block(step.rows)):
                self._prefixes.share(request)
        for request in [one for one in self.ended_in_flight if not one.is_in_flight]:
            self.ended_in_flight.remove(request)
            self._release(request)
        return prompt_tokens

    def accept(self, step: AssembledStep, outcomes: list[SampledToken | DomainError]) -> list[bool]:
        """Count what a settled step has sampled; whether it is the last that each may have."""
        token_ids = [one.token_id if type(one) is SampledToken else 0 for one in outcomes]
        return self._rows.accept(step.rows[step.is_sampled], token_ids)

    def plan(self) -> StepPlan:
        """Decide the next step."""
        self._step += 1
        self.must_settle = False
        plan = StepPlan(self._rows, self._max_step_tokens)
        self._collect_loads(plan)
        self._grant_running(plan)
        if not plan.has_preempted:
            self._start_requests(plan)
            self._load_turns.take(self._step, anybody_runs=bool(self.running))
            if self._loads.have_landed:
                self._collect_loads(plan)
                self._start_requests(plan)
        self._look_for_stall(plan)
        return plan

    def _collect_loads(self, plan: StepPlan) -> None:
        ended = self._loads.collect()
        for request in ended.ready:
            request.state = RequestState.WAITING
            request.stamps.adapter_came()
            self._line.push(request)
        for request, error in ended.failed:
            request.state = RequestState.WAITING
            self._fail(request, error, plan)
        self._changes += 1 if ended.has_any else 0

    def _grant_running(self, plan: StepPlan) -> None:
        missing = self._rows.missing()
        misses_one, is_full = missing == 1, self._rows.are_full()
        chunks = self._rows.held_by(np.flatnonzero(missing > 1))
        plan.grant_one_each(np.flatnonzero(misses_one & ~is_full))
        self._grant_growing(np.flatnonzero(misses_one & is_full), plan)
        chunks.sort(key=lambda request: (request.missing_tokens, request.arrival))
        for request in chunks:
            tokens = min(request.missing_tokens, plan.budget_tokens)
            if tokens and self._grow(request, request.computed_tokens + tokens, plan):
                plan.grant(request, tokens)

    def _grant_growing(self, rows: Integers, plan: StepPlan) -> None:
        """One token each, for which each needs a page more."""
        if 0 < len(rows) <= self._pool.free_pages:
            pages = self._pool.take(len(rows))
            self._rows.add_page_each(rows, pages)
            plan.new_pages += pages
            plan.grant_one_each(rows)
            return
        for request in self._rows.held_by(rows):
            if self._grow(request, request.computed_tokens + 1, plan):
                plan.grant(request, 1)

    def _grow(self, request: Request, tokens: int, plan: StepPlan) -> bool:
        """Give a running request pages for so many tokens; False where it has to wait."""
        if request.state is not RequestState.RUNNING:  # it was preempted for another
            return False
        pages = self._geometry.blocks_of(tokens) - request.blocks
        while not self._room.for_growth(pages):
            last = last_in_order(self.running)
            if last.is_in_flight or self.ended_in_flight:
                self.must_settle = True
                return False
            if last is request:
                # Whoever stands before it may take its pages; until then it keeps what it has.
                return False
            self._preempt(last, plan)
        self._take(request, pages, plan)
        return True

    def _preempt(self, request: Request, plan: StepPlan) -> None:
        plan.revoke(request)
        self.running.remove(request)
        self._release(request)
        count_preemption(request)
        self.preemptions += 1
        self._wait(request)
        plan.has_preempted = True

    def _start_requests(self, plan: StepPlan) -> None:
        held_back: list[Request] = []
        while plan.budget_tokens > 0 and len(self.running) < self._max_running_requests:
            request = self._line.pop()
            if request is None:
                break
            verdict = self._start(request, plan)
            if verdict in (_Verdict.NO_ROOM, _Verdict.HELD_BACK):
                held_back.append(request)
            if verdict is _Verdict.NO_ROOM or len(held_back) >= _SCAN_LIMIT:
                break
        for request in held_back:
            self._line.push(request)

    def _start(self, request: Request, plan: StepPlan) -> _Verdict:
        """Let a waiting request run, or say what it lacks."""
        key = request.adapter_key
        adapter = None if key is None else self._residency.get(key)
        if key is not None and (adapter is None or adapter.is_loading):
            request.stamps.park()
            self._loads.park(request)
            return _Verdict.PARKED
        # With nobody running there is nobody to wait for.
        if self.running and self._load_turns.holds_back(key):
            return _Verdict.HELD_BACK
        if self._blocked == (request, self._changes):
            return _Verdict.NO_ROOM
        matched = self._prefixes.match(request)
        pages = self._geometry.blocks_of(request.wanted_tokens) - len(matched)
        has_room = self._room.available_pages >= pages + self._spare_pages(request)
        if not has_room or not self._room.for_start(pages, key, alone=not self.running):
            self._prefixes.unmatch(matched)
            self._blocked = (request, self._changes)
            return _Verdict.NO_ROOM
        self._run(request, adapter, matched, pages, plan)
        return _Verdict.STARTED

    def _spare_pages(self, newcomer: Request) -> int:
        """Pages to be left over: for an adapter that has aged, and for everybody who may grow.

        Without the latter whoever starts last would be preempted at once. Alone, it fits.
        """
        if not self.running:
            return 0
        limit = self._geometry.blocks_of(newcomer.limit_tokens - 1)
        grows = limit > self._geometry.blocks_of(newcomer.wanted_tokens)
        return self._rows.growing() + grows + self._load_turns.held_pages()

    def _run(
        self,
        request: Request,
        adapter: ResidentAdapter | None,
        matched: list[PageId],
        pages: int,
        plan: StepPlan,
    ) -> None:
        self._leave_line(request)
        self._line.started(request)
        request.state = RequestState.RUNNING
        request.is_overdue = False
        self.running.append(request)
        if adapter is not None:
            self._residency.acquire(adapter)
            self._room.served(adapter.key)
            request.adapter = adapter
        request.begin(self._rows, matched)
        self._take(request, pages, plan)
        if request.standing is None:
            request.stamps.start()
            request.cached_tokens = request.computed_tokens
            self.cached_tokens += request.computed_tokens
            request.standing = first_standing(request)
            request.account.charge(input_cost(request.missing_tokens))
            request.account.promise(request.message.sampling.max_tokens)
        plan.grant(request, min(request.missing_tokens, plan.budget_tokens))

    def _take(self, request: Request, pages: int, plan: StepPlan) -> None:
        if pages > 0:
            taken = self._pool.take(pages)
            request.add_pages(taken)
            plan.new_pages.extend(taken)

    def _release(self, request: Request) -> None:
        self._prefixes.release(request)
        if request.adapter is not None:
            self._residency.release(request.adapter)
            request.adapter = None
        self._changes += 1

    def _wait(self, request: Request) -> None:
        request.state = RequestState.WAITING
        self.waiting_requests += 1
        self._room.want(request)
        self.accounts.enter_line(request.account)
        self._line.push(request)

    def _leave_line(self, request: Request) -> None:
        self.waiting_requests -= 1
        self._room.no_longer_want(request)
        self.accounts.leave_line(request.account)
        self._changes += 1

    def _look_for_stall(self, plan: StepPlan) -> None:
        can_go_on = bool(
            self.running or self._loads.are_coming or self.ended_in_flight or plan.failed
        )
        remedy = self._watch.see(
            self.waiting_requests, can_go_on=can_go_on, free_pages=self._pool.free_pages
        )
        if remedy is Remedy.NONE:
            return
        plan.is_stalled = True
        if remedy is Remedy.EVICT:
            self._room.evict_everything()
            self._blocked = None
        else:
            first = self._line.pop() or self._adapter_line.next_ticket()
            assert first is not None, "somebody waits"
            message = "The engine found no room for the request though nothing else ran."
            self._fail(first, EngineFailure(message), plan)

    def _fail(self, request: Request, error: DomainError, plan: StepPlan) -> None:
        self.end(request)
        plan.failed.append((request, error))
