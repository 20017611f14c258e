"""Who is served next: the least served tenant of the highest class, and nobody waits for ever."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.protocol.generation import Priority
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.request import Request, RequestState
from loraplex.engine.scheduler.accounts import Accounts, TenantAccount
from loraplex.engine.scheduler.charges import OUTPUT_TOKEN_COST, input_cost
from loraplex.engine.scheduler.fair_queue import OVERTAKES_LIMIT, FairQueue
from tests.engine.scheduler.waiting import waiting_request

PLACES = 3
PROMPT_LIMIT, OUTPUT_LIMIT = 20, 10
SIZES = st.tuples(st.integers(1, PROMPT_LIMIT), st.integers(1, OUTPUT_LIMIT))
WEIGHTS = st.sampled_from([0.5, 1.0, 3.0])


@dataclass
class Server:
    """Serves the queue in `PLACES` places, a token of output a step, as the scheduler charges."""

    accounts: Accounts = field(default_factory=Accounts)
    queue: FairQueue = field(default_factory=FairQueue)
    running: list[Request] = field(default_factory=list)
    started: list[Request] = field(default_factory=list)
    arrivals: int = 0

    def arrive(self, tenant: str, size: tuple[int, int], weight: float = 1.0) -> Request:
        request = waiting_request(
            self.accounts,
            self.arrivals,
            tenant,
            prompt_tokens=size[0],
            output_tokens=size[1],
            weight=weight,
        )
        self.arrivals += 1
        self.accounts.enter_line(request.account)
        self.queue.push(request)
        return request

    def step(self) -> None:
        while len(self.running) < PLACES and (request := self.queue.pop()) is not None:
            self.queue.started(request)
            self.accounts.leave_line(request.account)
            request.state = RequestState.RUNNING
            request.account.charge(input_cost(request.prompt_tokens))
            request.account.promise(request.message.sampling.max_tokens)
            self.running.append(request)
            self.started.append(request)
        for request in self.running.copy():
            request.append(1)
            request.account.deliver_token()
            if request.known_tokens == request.limit_tokens:
                self.running.remove(request)
                request.state = RequestState.ENDED
                self.accounts.end(request.account)

    def account(self, tenant: str) -> TenantAccount:
        return self.accounts._by_tenant[TenantNamespace(tenant)]


BOUND = PROMPT_LIMIT + OUTPUT_TOKEN_COST * OUTPUT_LIMIT * PLACES
"""Tokens: one start, and all that the running requests may still take."""


@given(st.lists(st.tuples(SIZES, SIZES), min_size=5, max_size=40), st.tuples(WEIGHTS, WEIGHTS))
def test_two_tenants_that_stay_in_line_are_served_alike_by_weight(
    sizes: list[tuple[tuple[int, int], tuple[int, int]]], weights: tuple[float, float]
) -> None:
    server = Server()
    for pair in sizes:
        for tenant, size, weight in zip("ab", pair, weights, strict=True):
            server.arrive(tenant, size, weight)
    while all(server.account(tenant).waiting_requests for tenant in "ab"):
        server.step()
        difference = server.account("a").service - server.account("b").service
        assert abs(difference) <= BOUND / min(weights)


@given(st.lists(SIZES, min_size=60, max_size=60), st.integers(1, 60))
def test_nobody_saves_up_turns_by_idling(sizes: list[tuple[int, int]], idle_steps: int) -> None:
    server = Server()
    for size in sizes:
        server.arrive("busy", size)
    for _ in range(idle_steps):
        server.step()
    before = len(server.started)
    for size in sizes[:20]:
        server.arrive("late", size)
    served: Counter[TenantNamespace] = Counter()
    while server.account("busy").waiting_requests and server.account("late").waiting_requests:
        server.step()
        for request in server.started[before:]:
            served[request.account.namespace] += request.prompt_tokens
        before = len(server.started)
        late, busy = server.account("late"), server.account("busy")
        assert late.service >= busy.service - BOUND, "it is not behind by what it did not use"
        assert served[late.namespace] <= served[busy.namespace] + 2 * BOUND


@given(st.lists(st.tuples(st.sampled_from("abcd"), SIZES), max_size=40))
def test_no_place_stays_empty_while_somebody_waits(
    arrivals: list[tuple[str, tuple[int, int]]],
) -> None:
    server = Server()
    for tenant, size in arrivals:
        server.arrive(tenant, size)
    ended = 0
    while server.running or any(a.waiting_requests for a in server.accounts._by_tenant.values()):
        waiting = sum(a.waiting_requests for a in server.accounts._by_tenant.values())
        started, ran = len(server.started), len(server.running)
        server.step()
        assert len(server.started) - started == min(PLACES - ran, waiting)
        ended += 1
    assert sorted(r.arrival for r in server.started) == list(range(len(arrivals)))


@given(st.lists(st.tuples(st.sampled_from("abcd"), SIZES), max_size=40))
def test_a_tenants_own_requests_start_as_they_came(
    arrivals: list[tuple[str, tuple[int, int]]],
) -> None:
    server = Server()
    for tenant, size in arrivals:
        server.arrive(tenant, size)
    for _ in range(40 * OUTPUT_LIMIT):
        server.step()
    for tenant in "abcd":
        own = [r.arrival for r in server.started if r.message.namespace == tenant]
        assert own == sorted(own)


def in_classes(priorities: Sequence[Priority]) -> tuple[Accounts, FairQueue]:
    accounts, queue = Accounts(), FairQueue()
    for number, priority in enumerate(priorities):
        request = waiting_request(accounts, number, f"{number % 3}", priority=priority)
        accounts.enter_line(request.account)
        queue.push(request)
    return accounts, queue


@given(st.permutations([*[Priority.INTERACTIVE] * 4, *[Priority.STANDARD] * 4, Priority.BATCH]))
def test_a_higher_class_goes_first(priorities: list[Priority]) -> None:
    _, queue = in_classes(priorities)
    order = []
    while (request := queue.pop()) is not None:
        queue.started(request)
        order.append(request.priority)
    assert order == sorted(priorities)


@pytest.mark.parametrize("low", [Priority.STANDARD, Priority.BATCH])
def test_a_lower_class_is_overtaken_so_often_and_no_more(low: Priority) -> None:
    """Interactive requests never end, and both lower classes wait."""
    accounts, queue = in_classes([Priority.STANDARD, Priority.BATCH] * 5)
    since = 0
    for number in range(10, 200):
        request = waiting_request(accounts, number, "x", priority=Priority.INTERACTIVE)
        accounts.enter_line(request.account)
        queue.push(request)
        taken = queue.pop()
        assert taken is not None
        queue.started(taken)
        since = 0 if taken.priority is low else since + 1
        if queue._lines[low].peek() is not None:
            assert since <= OVERTAKES_LIMIT + 1


@given(st.lists(st.sampled_from(["arrive", "cancel", "take"]), max_size=60), st.data())
def test_requests_that_ended_in_line_never_come_up(moves: list[str], data: st.DataObject) -> None:
    accounts, queue = Accounts(), FairQueue()
    waiting: deque[Request] = deque()
    for number, move in enumerate(moves):
        if move == "arrive":
            tenant = data.draw(st.sampled_from("ab"))
            priority = data.draw(st.sampled_from(Priority))
            request = waiting_request(accounts, number, tenant, priority=priority)
            accounts.enter_line(request.account)
            queue.push(request)
            waiting.append(request)
        elif move == "cancel" and waiting:
            request = waiting.popleft()
            request.state = RequestState.ENDED
            accounts.leave_line(request.account)
        elif move == "take":
            taken = queue.pop()
            assert (taken is None) == (not waiting)
            if taken is not None:
                waiting.remove(taken)
                accounts.leave_line(taken.account)


def test_accounts_of_tenants_that_left_are_forgotten_and_lifted_when_they_return() -> None:
    accounts = Accounts()
    accounts._prune_at = 8
    busy = waiting_request(accounts, 0, "busy").account
    accounts.enter_line(busy)
    busy.charge(100)
    for number in range(20):
        account = waiting_request(accounts, number, f"{number}").account
        accounts.enter_line(account)
        assert account.service >= 100, "lifted to the least in line"
        accounts.leave_line(account)
        accounts.end(account)
    assert len(accounts._by_tenant) < 20
    assert TenantNamespace("busy") in accounts._by_tenant
