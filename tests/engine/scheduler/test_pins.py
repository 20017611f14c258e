"""A pinned adapter stays, and nobody is promised the pages that it takes."""

from pathlib import Path

import msgspec
import pytest

from loraplex.engine.core import EngineCore
from loraplex.engine.memory.residency import key_of
from loraplex.engine.protocol.errors import (
    AdapterTooLarge,
    AdapterUnavailable,
    PinLeavesNoRoom,
    PromptTooLong,
)
from loraplex.engine.protocol.generation import FinishReason
from tests.engine.driving import finish, greedy, request, run
from tests.engine.fake_device import FakeAdapter, make_fake_adapter, make_fake_engine

PAGES = 16
BLOCK_TOKENS = 4


def engine_of(pages: int = PAGES) -> EngineCore:
    return make_fake_engine(pages, block_tokens=BLOCK_TOKENS, loader_threads=1)[0]


@pytest.fixture
def adapters(tmp_path: Path) -> list[FakeAdapter]:
    """Of three pages each: a rank fills one."""
    return [make_fake_adapter(tmp_path, seed, 3) for seed in range(4)]


def is_resident(engine: EngineCore, adapter: FakeAdapter) -> bool:
    return engine._residency.get(key_of(adapter.ref)) is not None


def test_a_pinned_adapter_outlives_the_need_for_its_pages(adapters: list[FakeAdapter]) -> None:
    engine = engine_of()
    pinned, *others = adapters
    engine.pin(pinned.ref)
    run(engine, request("first", [1], greedy(1), pinned.ref))
    for number, other in enumerate(others):
        run(engine, request(f"r{number}", range(30), greedy(4), other.ref))
    assert is_resident(engine, pinned)
    assert engine.load().adapter_loads == 4
    engine.unpin(key_of(pinned.ref))
    run(engine, request("last", range(45), greedy(4), others[-1].ref))
    assert not is_resident(engine, pinned)
    engine.close()


def test_pinned_pages_are_nobody_elses_when_a_request_is_judged(
    adapters: list[FakeAdapter],
) -> None:
    engine = engine_of()
    engine.pin(adapters[0].ref)
    room = (PAGES - 3) * BLOCK_TOKENS
    with pytest.raises(PromptTooLong, match=rf"room for {room + 1} beside pinned adapters"):
        engine.add(request("long", range(room), greedy(2)))
    with pytest.raises(PromptTooLong):
        engine.add(request("long", range(room - 3 * BLOCK_TOKENS), greedy(2), adapters[1].ref))
    # Its own pages are not taken from a request of the pinned adapter twice.
    own = request("own", range(room), greedy(1), adapters[0].ref)
    base = request("base", range(room), greedy(1))
    answers = run(engine, own, base)
    assert {answer.finish_reason for answer in answers.values()} == {FinishReason.LENGTH}
    engine.unpin(key_of(adapters[0].ref))
    run(engine, request("long", range(room), greedy(2)))
    engine.close()


def test_an_adapter_is_refused_for_which_pins_leave_no_room(tmp_path: Path) -> None:
    engine = engine_of()
    engine.pin(make_fake_adapter(tmp_path, 1, 4).ref)
    with pytest.raises(AdapterTooLarge, match="the pool has 12 beside pinned adapters"):
        engine.add(request("r", [1], greedy(1), make_fake_adapter(tmp_path, 2, 12).ref))
    engine.close()


def test_a_pin_leaves_room_for_the_largest_adapter_and_a_request(
    adapters: list[FakeAdapter],
) -> None:
    """The request of half the pool, since one of the model's whole context would not fit."""
    engine = engine_of()
    engine.pin(adapters[0].ref)
    engine.pin(adapters[0].ref)
    with pytest.raises(PinLeavesNoRoom, match=r"leave 10 of .* at least 11") as caught:
        engine.pin(adapters[1].ref)
    assert (caught.value.rule, caught.value.value) == ("at most 2 pages", 3)
    engine.unpin(key_of(adapters[0].ref))
    engine.pin(adapters[1].ref)
    engine.close()


def test_a_pin_takes_no_room_from_requests_that_are_here(adapters: list[FakeAdapter]) -> None:
    engine = engine_of()
    long = request("long", range(14 * BLOCK_TOKENS), greedy(1))
    engine.add(long)
    with pytest.raises(PinLeavesNoRoom, match="at least 14"):
        engine.pin(adapters[0].ref)
    finish(engine)
    engine.pin(adapters[0].ref)
    engine.close()


def test_requests_of_an_adapter_do_not_stand_in_the_way_of_its_own_pin(
    adapters: list[FakeAdapter],
) -> None:
    engine = engine_of()
    engine.add(request("long", range(13 * BLOCK_TOKENS), greedy(1), adapters[0].ref))
    engine.pin(adapters[0].ref)
    assert finish(engine)["long"].finish_reason is FinishReason.LENGTH
    engine.close()


def test_an_adapter_of_another_base_cannot_be_pinned(adapters: list[FakeAdapter]) -> None:
    engine = engine_of()
    ref = adapters[0].ref
    other = msgspec.structs.replace(ref.spec, base_digest=ref.spec.digest)
    with pytest.raises(AdapterUnavailable):
        engine.pin(msgspec.structs.replace(ref, spec=other))
    engine.unpin(key_of(ref))
    engine.close()
