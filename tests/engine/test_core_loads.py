"""Adapters come beside the steps, stay while they are used, and make room for others."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import AdapterUnavailable
from loraplex.engine.protocol.generation import FinishReason
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.scheduler.adapter_line import PATIENCE_STEPS
from tests.engine.driving import Answer, finish, greedy, request, run, step
from tests.engine.gated import GatedSource
from tests.engine.tiny_engines import PROMPT, adapter_pages, nobody_holds_pages

# PEFT asks Transformers by a name that Transformers has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")


def test_a_request_whose_adapter_loads_holds_up_nobody(
    make: Any, refs: list[AdapterRef], source: GatedSource
) -> None:
    engine = make(adapters=source)
    answers: dict[str, Answer] = {}
    engine.add(request("loads", PROMPT[:3], greedy(2), refs[0]))
    engine.add(request("base", PROMPT[:3], greedy(2)))
    while "base" not in answers or answers["base"].finish_reason is None:
        step(engine, answers)
    assert "loads" not in answers
    engine.step()
    assert not engine.wait_for_work(0), "nothing to do until the adapter comes"
    source.let_through()
    finish(engine, answers)
    assert len(answers["loads"].token_ids) == 2


@pytest.mark.parametrize("error", [AdapterUnavailable("gone"), RuntimeError("broken")])
def test_a_failed_load_fails_its_own_requests_and_frees_everything(
    make: Any, refs: list[AdapterRef], source: GatedSource, error: Exception
) -> None:
    engine = make(adapters=source)
    for name in ("one", "other"):
        engine.add(request(name, PROMPT[:3], greedy(2), refs[0]))
    engine.add(request("base", PROMPT[:3], greedy(2)))
    answers: dict[str, Answer] = {}
    step(engine, answers)
    source.fail(error)
    finish(engine, answers)
    assert len(answers["base"].token_ids) == 2
    for name in ("one", "other"):
        last = answers[name].last
        assert last is not None
        assert last.finish_reason is FinishReason.ERROR
        assert last.failure is not None
        assert last.failure.code == "adapter_unavailable"
    assert nobody_holds_pages(engine)
    engine.add(request("again", PROMPT[:3], greedy(2), refs[0]))
    assert engine.step() == []
    source.let_through()
    assert len(finish(engine)["again"].token_ids) == 2


def test_a_file_that_is_not_the_adapter_fails_the_load(
    make: Any, refs: list[AdapterRef], tmp_path: Path
) -> None:
    (tmp_path / "short").write_bytes(Path(refs[0].url).read_bytes()[:-1])
    engine = make()
    ref = msgspec.structs.replace(refs[0], url=str(tmp_path / "short"))
    last = run(engine, request("r", PROMPT[:3], greedy(2), ref))["r"].last
    assert last is not None
    assert last.failure is not None
    assert "bytes instead of" in last.failure.message
    assert nobody_holds_pages(engine)


def test_tenants_do_not_share_a_resident_copy(make: Any, refs: list[AdapterRef]) -> None:
    engine = make()
    other = msgspec.structs.replace(refs[0], namespace=TenantNamespace("another"))
    answers = run(
        engine,
        request("mine", PROMPT[:3], greedy(4), refs[0]),
        request("theirs", PROMPT[:3], greedy(4), other),
    )
    assert engine.load().adapter_loads == 2
    assert answers["mine"].token_ids == answers["theirs"].token_ids


def test_an_adapter_in_use_stays_while_others_come_and_go(
    make: Any, refs: list[AdapterRef]
) -> None:
    pages = adapter_pages(make, refs[0])
    wanted = run(make(), request("r", PROMPT[:3], greedy(30), refs[0]))["r"].token_ids
    # The one that stays grows to eight blocks, so that two others no longer fit beside it.
    engine = make(pages=2 * pages + 9)
    answers: dict[str, Answer] = {}
    engine.add(request("stays", PROMPT[:3], greedy(30), refs[0]))
    for number in range(10):
        engine.add(request(f"{number}", PROMPT[:3], greedy(2), refs[1 + number % 2]))
        while f"{number}" not in answers or answers[f"{number}"].finish_reason is None:
            step(engine, answers)
    finish(engine, answers)
    assert engine.load().adapter_loads > 3, "others had to leave and come back"
    assert answers["stays"].token_ids == wanted


def test_room_for_one_adapter_is_given_to_another_in_bounded_time(
    make: Any, refs: list[AdapterRef]
) -> None:
    engine = make(pages=adapter_pages(make, refs[0]) + 8, loader_threads=0)
    answers: dict[str, Answer] = {}

    def load_and_step() -> None:
        for _ in range(engine._residency.loads_in_flight):
            engine._loader.run_one()
        step(engine, answers)

    engine.add(request("A", PROMPT[:3], greedy(3), refs[0]))
    load_and_step()
    engine.add(request("B", PROMPT[:3], greedy(2), refs[1]))
    steps = 0
    while "B" not in answers:
        engine.add(request(f"A{steps}", PROMPT[:3], greedy(3), refs[0]))
        load_and_step()
        steps += 1
        assert steps < 2 * PATIENCE_STEPS
    while engine.has_work:
        load_and_step()
    assert all(answer.finish_reason is FinishReason.LENGTH for answer in answers.values())


def test_more_adapters_than_the_pool_holds_are_served_in_turn(
    make: Any, refs: list[AdapterRef]
) -> None:
    engine = make(pages=adapter_pages(make, refs[0]) + 4)
    answers = run(
        engine,
        *(request(f"{n}", PROMPT[:3], greedy(3), refs[n % 3]) for n in range(9)),
        request("base", PROMPT[:3], greedy(3)),
    )
    assert all(len(answer.token_ids) == 3 for answer in answers.values())
