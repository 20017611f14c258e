"""Who loses its pages: only when nothing idle is left, always the last in one order for life."""

from typing import Any

import msgspec

from loraplex.engine.core import EngineCore
from loraplex.engine.protocol.generation import Priority
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.request import Request
from loraplex.engine.scheduler.accounts import Accounts
from loraplex.engine.scheduler.plan import StepPlan
from loraplex.engine.scheduler.preemption import PREEMPTIONS_LIMIT, count_preemption, first_standing
from tests.engine.driving import greedy, request
from tests.engine.fake_device import expected_tokens, make_fake_engine
from tests.engine.scheduler.waiting import waiting_request


def run_and_record(engine: EngineCore, *names: str) -> tuple[list[str], list[str]]:
    """The victims, and who ended, both in order."""
    victims: list[str] = []
    scheduler = engine._scheduler
    preempt = scheduler._preempt

    def recorded(request: Request, plan: StepPlan) -> None:
        victims.append(request.request_id)
        preempt(request, plan)

    scheduler._preempt = recorded  # type: ignore[method-assign]
    ended = []
    while engine.has_work:
        for output in engine.step():
            if output.finish_reason is not None:
                assert output.output_tokens == 24
                ended.append(output.request_id)
        engine.check_integrity()
    assert sorted(ended) == sorted(names)
    return victims, ended


def add(engine: EngineCore, name: str, **changes: Any) -> None:
    """Grows from two blocks to eight."""
    one = request(name, [int(name[-1]), 1, 2, 3, 4, 5, 6, 7], greedy(24))
    engine.add(msgspec.structs.replace(one, **changes))


def test_the_lowest_class_goes_first_whoever_came_first() -> None:
    engine, _ = make_fake_engine(12, max_step_tokens=64)
    add(engine, "batch 1", priority=Priority.BATCH)
    engine.step()
    add(engine, "standard 2")
    engine.step()
    add(engine, "interactive 3", priority=Priority.INTERACTIVE)
    victims, ended = run_and_record(engine, "batch 1", "standard 2", "interactive 3")
    assert victims[0] == "batch 1"
    assert "interactive 3" not in victims
    assert ended[0] == "interactive 3"


def test_the_tenant_that_was_promised_most_loses_first() -> None:
    """The last to come is another tenant's first request: it stands before the second ones."""
    engine, _ = make_fake_engine(14, max_step_tokens=64)
    for name in ("one 1", "one 2"):
        add(engine, name, namespace=TenantNamespace("one"))
    engine.step()
    add(engine, "other 3", namespace=TenantNamespace("other"))
    victims, _ = run_and_record(engine, "one 1", "one 2", "other 3")
    assert victims[0] == "one 2"
    assert "one 1" not in victims


def test_of_equals_never_each_in_turn() -> None:
    engine, _ = make_fake_engine(10, max_step_tokens=64)
    names = [f"equal {number}" for number in range(4)]
    for name in names:
        add(engine, name)
    victims, ended = run_and_record(engine, *names)
    assert victims, "they do not fit side by side"
    assert names[0] not in victims
    assert ended == names


def test_one_that_starts_leaves_a_page_to_each_that_may_grow() -> None:
    """Otherwise it would be preempted within a block's tokens, over and over."""
    engine, device = make_fake_engine(10, max_step_tokens=64)
    for number in range(4):
        add(engine, f"{number}")
    run_and_record(engine, *(f"{number}" for number in range(4)))
    assert engine.load().preemptions <= 4
    wanted = sum(8 + 23 for _ in range(4))
    assert device.submitted_tokens <= wanted + engine.load().preemptions * BLOCKS_LOST


BLOCKS_LOST = 31
"""At most all tokens but the last are computed again."""


def test_whoever_is_preempted_too_often_is_raised() -> None:
    accounts = Accounts()
    one = waiting_request(accounts, 0, "t", priority=Priority.BATCH)
    one.standing = first_standing(one)
    seen = []
    for _ in range(3 * PREEMPTIONS_LIMIT):
        count_preemption(one)
        seen.append(one.priority)
    assert seen == [
        *[Priority.BATCH] * (PREEMPTIONS_LIMIT - 1),
        *[Priority.STANDARD] * PREEMPTIONS_LIMIT,
        *[Priority.INTERACTIVE] * (PREEMPTIONS_LIMIT + 1),
    ]
    assert one.standing.priority is Priority.INTERACTIVE


def test_a_batch_request_ends_though_higher_classes_keep_coming() -> None:
    engine, _ = make_fake_engine(9, max_step_tokens=64, max_running_requests=3)
    add(engine, "batch 1", priority=Priority.BATCH)
    engine.step()
    steps, has_ended = 0, False
    while not has_ended:
        if engine._scheduler.waiting_requests < 4:
            add(engine, f"more{steps} {steps % 10}", priority=Priority.INTERACTIVE)
        for output in engine.step():
            has_ended |= output.request_id == "batch 1" and output.finish_reason is not None
        steps += 1
        assert steps < 1000


def test_preempted_requests_say_the_same() -> None:
    engine, _ = make_fake_engine(9, max_step_tokens=5)
    tokens: dict[str, list[int]] = {}
    for number in range(5):
        add(engine, f"{number}")
    while engine.has_work:
        for output in engine.step():
            tokens.setdefault(output.request_id, []).extend(output.token_ids)
        engine.check_integrity()
    assert engine.load().preemptions > 0
    for number in range(5):
        assert tokens[f"{number}"] == expected_tokens([number, 1, 2, 3, 4, 5, 6, 7], 0, 24)
