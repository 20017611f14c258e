"""Hands out each step's token budget and the pool's pages. Knows neither tensors nor models."""

from collections import Counter
from enum import Enum, auto
from typing import Final

from loraplex.engine.memory.geometry import PageGeometry
from loraplex.engine.memory.residency import AdapterKey, AdapterResidency, ResidentAdapter
from loraplex.engine.request import Request, RequestState
from loraplex.engine.scheduler.line import WaitingLine
from loraplex.engine.scheduler.loads import AdapterLoads
from loraplex.engine.scheduler.plan import StepPlan

PATIENCE_STEPS: Final = 32
"""Steps for which later requests may overtake one whose adapter finds no room."""

_SCAN_LIMIT: Final = 64
"""Requests looked at behind those that cannot start, so that a step's cost stays bounded."""


class _Verdict(Enum):
    ADMITTED = auto()
    PARKED = auto()
    LOADS_BUSY = auto()
    NO_ADAPTER_ROOM = auto()
    NO_ROOM = auto()


class Scheduler:
    """Owns the requests' places: in line, parked, running.

    Running requests come first, those that miss least before the others, so that a long prompt
    takes what the decodes leave. Then requests are admitted in order of arrival, with pages for
    all their tokens so far. When a running request cannot grow, the latest arrival loses its
    pages and computes its tokens again later.
    """

    def __init__(
        self,
        geometry: PageGeometry,
        residency: AdapterResidency,
        loads: AdapterLoads,
        *,
        max_step_tokens: int,
        max_running_requests: int,
    ) -> None:
        self._geometry = geometry
        self._pool = residency.pool
        self._residency = residency
        self._loads = loads
        self._max_step_tokens = max_step_tokens
        # A step must be able to give every running request its one token.
        self._max_running_requests = min(max_running_requests, max_step_tokens)
        self._line = WaitingLine()
        self._wanted: Counter[AdapterKey] = Counter()
        self._has_blocked = False
        self.running: list[Request] = []
        self.waiting_requests = 0
        self.preemptions = 0

    def add(self, request: Request) -> None:
        """Take a request that has been found to fit; its adapter's load starts if it can."""
        self._wait(request)
        key = request.adapter_key
        if key is None or self._has_blocked:
            return
        if self.waiting_requests + len(self.running) > self._max_running_requests:
            return
        # It stays in line: parking it is the next step's business.
        ref = request.message.adapter
        if ref is not None and self._residency.get(key) is None and not self._loads.is_busy:
            self._loads.begin(key, ref, self._is_unwanted)

    def end(self, request: Request) -> None:
        """Take a request out, whatever its state, and free what it holds."""
        match request.state:
            case RequestState.RUNNING:
                self._release(request)
            case RequestState.WAITING | RequestState.PARKED:
                self._leave_line(request)
            case RequestState.ENDED:
                return
        request.state = RequestState.ENDED

    def plan(self) -> StepPlan:
        """Decide the next step."""
        plan = StepPlan(self._max_step_tokens)
        ready, plan.failed = self._loads.collect()
        for request, _ in plan.failed:
            self.end(request)
        for request in ready:
            self._line.push(request)
        self._grant_running(plan)
        if not plan.has_preempted:
            self._admit(plan)
        return plan

    def _grant_running(self, plan: StepPlan) -> None:
        for request in sorted(self.running, key=lambda r: (r.missing_tokens, r.arrival)):
            if request.state is not RequestState.RUNNING:  # preempted for another
                continue
            tokens = min(request.missing_tokens, plan.budget_tokens)
            if tokens and self._grow(request, request.computed_tokens + tokens, plan):
                plan.grant(request, tokens)

    def _grow(self, request: Request, tokens: int, plan: StepPlan) -> bool:
        """Give a running request pages for so many tokens; False where it has to wait."""
        pages = self._geometry.blocks_of(tokens) - len(request.pages)
        while not self._make_room(pages):
            latest = max(self.running, key=lambda r: r.arrival)
            if latest is request:
                # Whoever came before may take its pages; until then it keeps what it computed.
                return False
            self._preempt(latest, plan)
        self._take(request, pages, plan)
        return True

    def _preempt(self, request: Request, plan: StepPlan) -> None:
        self._release(request)
        request.computed_tokens = 0
        self._wait(request)
        self.preemptions += 1
        plan.revoke(request)
        plan.has_preempted = True

    def _admit(self, plan: StepPlan) -> None:
        deferred: list[Request] = []
        while plan.budget_tokens > 0 and len(self.running) < self._max_running_requests:
            request = self._line.pop()
            if request is None:
                break
            verdict = self._start(request, plan, is_first=not deferred)
            if verdict in (_Verdict.ADMITTED, _Verdict.PARKED):
                continue
            deferred.append(request)
            if verdict is _Verdict.NO_ADAPTER_ROOM:
                request.blocked_steps += 1
            is_patient = request.blocked_steps <= PATIENCE_STEPS
            if verdict is _Verdict.NO_ROOM or not is_patient or len(deferred) >= _SCAN_LIMIT:
                break
        for request in deferred:
            self._line.push(request)
        self._has_blocked = bool(deferred)

    def _start(self, request: Request, plan: StepPlan, *, is_first: bool) -> _Verdict:
        """Let a waiting request run, or say what it lacks."""
        key, ref = request.adapter_key, request.message.adapter
        adapter = None
        if key is not None and ref is not None:
            adapter = self._residency.get(key)
            if adapter is None:
                if self._loads.is_busy:
                    return _Verdict.LOADS_BUSY
                may_evict = _anything if is_first else self._is_unwanted
                if not self._loads.begin(key, ref, may_evict):
                    return _Verdict.NO_ADAPTER_ROOM
                adapter = self._residency.get(key)
            if adapter is None or adapter.is_loading:
                self._loads.park(key, request)
                return _Verdict.PARKED
            self._residency.acquire(adapter)
        pages = self._geometry.blocks_of(request.wanted_tokens)
        may_evict = _anything if is_first else self._is_unwanted
        if not self._residency.make_room(pages, may_evict):
            if adapter is not None:
                self._residency.release(adapter)
            return _Verdict.NO_ROOM
        self._run(request, adapter, pages, plan)
        return _Verdict.ADMITTED

    def _run(
        self, request: Request, adapter: ResidentAdapter | None, pages: int, plan: StepPlan
    ) -> None:
        self._leave_line(request)
        request.state = RequestState.RUNNING
        request.adapter = adapter
        request.blocked_steps = 0
        self.running.append(request)
        self._take(request, pages, plan)
        plan.grant(request, min(request.missing_tokens, plan.budget_tokens))

    def _take(self, request: Request, pages: int, plan: StepPlan) -> None:
        if pages > 0:
            taken = self._pool.take(pages)
            request.add_pages(taken)
            plan.new_pages.extend(taken)

    def _make_room(self, pages: int) -> bool:
        """For a running request: adapters that waiting requests want go too, but last."""
        return self._residency.make_room(pages, self._is_unwanted) or self._residency.make_room(
            pages, _anything
        )

    def _release(self, request: Request) -> None:
        self.running.remove(request)
        self._pool.give_back(request.pages)
        request.pages.clear()
        if request.adapter is not None:
            self._residency.release(request.adapter)
            request.adapter = None

    def _wait(self, request: Request) -> None:
        self.waiting_requests += 1
        if request.adapter_key is not None:
            self._wanted[request.adapter_key] += 1
        self._line.push(request)

    def _leave_line(self, request: Request) -> None:
        self.waiting_requests -= 1
        key = request.adapter_key
        if key is not None:
            self._wanted[key] -= 1
            if self._wanted[key] == 0:
                del self._wanted[key]

    def _is_unwanted(self, key: AdapterKey) -> bool:
        return key not in self._wanted


def _anything(_: AdapterKey) -> bool:
    return True
