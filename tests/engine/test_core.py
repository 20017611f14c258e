"""The engine's promises to whoever drives it, on a tiny model."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from loraplex.engine.core import EngineCore
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import AdapterTooLarge, AdapterUnavailable, PromptTooLong
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.messages import FinishReason
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.protocol.sampling import SamplingParams
from loraplex.engine.scheduler.adapter_line import PATIENCE_STEPS
from loraplex.engine.scheduler.errors import DuplicateRequest, InvalidRequest
from tests.engine.driving import Answer, finish, greedy, request, run, step
from tests.engine.gated import GatedSource
from tests.engine.tiny import VOCABULARY, describe, make_adapter, make_engine, make_model

# PEFT asks Transformers by a name that Transformers has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")

PROMPT = [int(n) for n in torch.randint(3, VOCABULARY, (60,), generator=torch.manual_seed(1))]
PAGE_BYTES = 4096
"""Of the tiny model: 2 layers x 4 tokens x 2 x 2 heads x 8 elements, doubled by float32."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("base"), "llama")


@pytest.fixture(scope="module")
def tiny_table(base: Path) -> ModuleTable:
    return describe(base)


@pytest.fixture(scope="module")
def refs(
    base: Path, tiny_table: ModuleTable, tmp_path_factory: pytest.TempPathFactory
) -> list[AdapterRef]:
    """Three adapters of the same size."""
    folder = tmp_path_factory.mktemp("adapters")
    return [
        make_adapter(
            folder / str(seed), base, tiny_table, seed, r=4, target_modules=["q_proj", "v_proj"]
        )
        for seed in range(3)
    ]


@pytest.fixture
def source() -> GatedSource:
    return GatedSource()


@pytest.fixture
def make(base: Path, tiny_table: ModuleTable) -> Iterator[Any]:
    """Makes engines and closes them."""
    engines: list[EngineCore] = []

    def make_one(pages: int = 256, **changes: Any) -> EngineCore:
        page_bytes = 2 * 4 * 2 * 2 * 8 * 4
        changes.setdefault("pool_bytes", pages * page_bytes)
        engine = make_engine(base, tiny_table, **changes)
        engines.append(engine)
        return engine

    yield make_one
    for engine in engines:
        engine.close()


def adapter_pages(make: Any, ref: AdapterRef) -> int:
    engine = make()
    run(engine, request("r", PROMPT[:2], greedy(1), ref))
    pages: int = engine.load().adapter_pages
    return pages


def nobody_holds_pages(engine: EngineCore) -> bool:
    """Whether all pages are free, or blocks that leave when they are needed."""
    load = engine.load()
    return load.free_pages + load.cached_pages == engine.limits().pool_pages


def test_a_request_gets_its_tokens_one_by_one_and_ends_once(make: Any) -> None:
    engine = make()
    answer = run(engine, request("r", PROMPT[:5], greedy(7)))["r"]
    assert len(answer.token_ids) == 7
    assert answer.finish_reason is FinishReason.LENGTH
    assert nobody_holds_pages(engine)
    assert (engine.load().prompt_tokens, engine.load().output_tokens) == (5, 7)
    assert not engine.has_work


def test_a_stop_token_ends_the_request_and_counts(make: Any) -> None:
    engine = make()
    free = run(engine, request("r", PROMPT[:5], greedy(9)))["r"].token_ids
    stop = next(token for place, token in enumerate(free) if place >= 2 and token not in free[:2])
    place = free.index(stop)
    answer = run(engine, request("r", PROMPT[:5], greedy(9, (stop,))))["r"]
    assert answer.token_ids == free[: place + 1]
    assert answer.last is not None
    assert answer.last.finish_reason is FinishReason.STOP
    assert answer.last.stop_token_id == stop
    longer = SamplingParams(
        max_tokens=9, temperature=0.0, stop_token_ids=(stop,), min_tokens=place + 2
    )
    answer = run(engine, request("r", PROMPT[:5], longer))["r"]
    assert len(answer.token_ids) >= place + 2


def test_tokens_do_not_depend_on_the_batch(make: Any, refs: list[AdapterRef]) -> None:
    sampling = [
        greedy(8),
        SamplingParams(max_tokens=8, seed=3),
        SamplingParams(max_tokens=8, seed=4, temperature=0.7, top_p=0.8),
        SamplingParams(max_tokens=8, seed=5, top_k=7, min_p=0.05, repetition_penalty=1.2),
        SamplingParams(max_tokens=8, seed=6, presence_penalty=1.0, frequency_penalty=0.5),
    ]
    requests = [
        request(f"{number}", PROMPT[number : 2 + 5 * number], params, ref)
        for number, (params, ref) in enumerate(
            zip(sampling, [None, refs[0], refs[1], refs[0], refs[2]], strict=True)
        )
    ]
    alone = make()
    wanted = {one.request_id: run(alone, one)[one.request_id].token_ids for one in requests}
    together = make()
    answers: dict[str, Answer] = {}
    for one in requests:
        together.add(one)
        step(together, answers)
    finish(together, answers)
    assert {request_id: answer.token_ids for request_id, answer in answers.items()} == wanted
    assert len({tuple(tokens) for tokens in wanted.values()}) == len(requests)


def test_seeds_differ_and_repeat(make: Any) -> None:
    engine = make()
    answers = run(
        engine,
        *(
            request(f"{number}", PROMPT[:4], SamplingParams(max_tokens=12, seed=seed))
            for number, seed in enumerate((1, 1, 2))
        ),
    )
    assert answers["0"].token_ids == answers["1"].token_ids != answers["2"].token_ids


def test_a_long_prompt_takes_what_the_decodes_leave(make: Any) -> None:
    engine = make()
    answers: dict[str, Answer] = {}
    engine.add(request("decode", PROMPT[:3], greedy(9)))
    step(engine, answers)
    engine.add(request("long", PROMPT, greedy(2)))
    for tokens in range(2, 9):
        step(engine, answers)
        assert len(answers["decode"].token_ids) == tokens
        assert "long" not in answers
    finish(engine, answers)
    assert len(answers["long"].token_ids) == 2


def test_what_can_never_fit_is_refused_naming_both_numbers(make: Any, base: Path) -> None:
    engine = make(pages=6)
    engine.add(request("fits", PROMPT[:20], greedy(5)))
    with pytest.raises(PromptTooLong, match=r"21 prompt tokens and 5 .* are 26.*room for 25"):
        engine.add(request("pool", PROMPT[:21], greedy(5)))
    with pytest.raises(PromptTooLong, match=r"60 prompt tokens and 69 .* are 129.*holds 128"):
        engine.add(request("model", PROMPT, greedy(69)))
    assert len(finish(engine)["fits"].token_ids) == 5


def test_an_adapter_larger_than_the_pool_is_refused(make: Any, refs: list[AdapterRef]) -> None:
    pages = adapter_pages(make, refs[0])
    with pytest.raises(AdapterTooLarge, match=f"{pages} pages .* has {pages}"):
        make(pages=pages).add(request("r", PROMPT[:2], greedy(1), refs[0]))
    engine = make(pages=pages + 1)
    assert len(run(engine, request("r", PROMPT[:4], greedy(1), refs[0]))["r"].token_ids) == 1
    with pytest.raises(PromptTooLong, match="room for 5"):
        engine.add(request("r", PROMPT[:5], greedy(1), refs[0]))


def test_impossible_tokens_are_refused_by_field(make: Any) -> None:
    engine = make()
    refused = {
        "prompt": request("r", [1, VOCABULARY], greedy(1)),
        "logit_bias": request("r", [1], SamplingParams(max_tokens=1, logit_bias={-1: 1.0})),
        "stop_token_ids": request("r", [1], greedy(1, (VOCABULARY,))),
        "max_tokens": request("r", [1], greedy(0)),
    }
    for field, one in refused.items():
        with pytest.raises(InvalidRequest) as error:
            engine.add(one)
        assert error.value.field == field
    with pytest.raises(InvalidRequest, match="empty"):
        engine.add(request("r", [], greedy(1)))
    assert not engine.has_work


def test_a_request_id_is_taken_while_its_request_lives(make: Any) -> None:
    engine = make()
    engine.add(request("r", PROMPT[:3], greedy(1)))
    with pytest.raises(DuplicateRequest):
        engine.add(request("r", PROMPT[:3], greedy(1)))
    assert len(finish(engine)["r"].token_ids) == 1
    assert len(run(engine, request("r", PROMPT[:3], greedy(1)))["r"].token_ids) == 1


def test_a_cancelled_request_is_gone_with_the_next_step_whatever_it_did(
    make: Any, refs: list[AdapterRef], source: GatedSource
) -> None:
    engine = make(adapters=source, max_running_requests=1)
    answers: dict[str, Answer] = {}
    engine.add(request("running", PROMPT[:9], greedy(20)))
    step(engine, answers)
    step(engine, answers)
    engine.add(request("in line", PROMPT[:9], greedy(20)))
    engine.cancel("running")
    engine.cancel("in line")
    engine.cancel("running")
    engine.cancel("nobody")
    engine.add(request("loading", PROMPT[:9], greedy(20), refs[0]))
    step(engine, answers)
    assert engine.load().kv_pages == 0
    engine.cancel("loading")
    step(engine, answers)
    assert {name: answer.finish_reason for name, answer in answers.items()} == dict.fromkeys(
        ("running", "in line", "loading"), FinishReason.CANCELLED
    )
    assert not engine.has_work
    source.let_through()
    assert run(engine, request("after", PROMPT[:3], greedy(1)))["after"].token_ids


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


def test_the_latest_arrival_is_preempted_and_its_tokens_stay_the_same(make: Any) -> None:
    requests = [request(f"{n}", PROMPT[n : n + 8], greedy(24)) for n in range(3)]
    roomy = make()
    wanted = {name: answer.token_ids for name, answer in run(roomy, *requests).items()}
    assert roomy.load().preemptions == 0
    # Each grows to 8 blocks, and 12 hold one and a half.
    tight = make(pages=12)
    answers: dict[str, Answer] = {}
    ended: list[str] = []
    for one in requests:
        tight.add(one)
    while tight.has_work:
        step(tight, answers)
        ended += [n for n, a in answers.items() if a.finish_reason is not None and n not in ended]
    assert {name: answer.token_ids for name, answer in answers.items()} == wanted
    assert tight.load().preemptions > 0
    assert ended == ["0", "1", "2"]


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


def test_a_failed_step_ends_its_requests_and_the_engine_lives_on(
    make: Any, refs: list[AdapterRef], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make()
    wanted = run(engine, request("r", PROMPT[:3], greedy(4), refs[0]))["r"].token_ids
    with monkeypatch.context() as patch:
        patch.setattr(engine._steps._executor.model, "forward", lambda *_: torch.zeros(1)[5])
        last = run(engine, request("r", PROMPT[:3], greedy(4), refs[0]))["r"].last
    assert last is not None
    assert last.failure is not None
    assert last.failure.code == "engine_failure"
    assert engine.load().kv_pages == 0
    assert run(engine, request("r", PROMPT[:3], greedy(4), refs[0]))["r"].token_ids == wanted


def test_numbers_that_overflow_in_one_request_reach_no_other(make: Any) -> None:
    engine = make(pages=8)
    wanted = run(engine, request("r", PROMPT[:9], greedy(4)))["r"].token_ids
    engine.add(request("bad", PROMPT[1:10], greedy(9)))
    assert engine.step() == [], "nine tokens are two chunks"
    pages = engine._requests["bad"].pages
    engine._pool.data[pages] = float("nan")
    last = finish(engine)["bad"].last
    assert last is not None
    assert last.finish_reason is FinishReason.ERROR
    assert run(engine, request("r", PROMPT[:9], greedy(4)))["r"].token_ids == wanted
    again = run(engine, request("good", PROMPT[1:10], greedy(4)))["good"]
    assert again.finish_reason is FinishReason.LENGTH, "its blocks are not found again"


def test_waiting_ends_with_work_or_a_call_from_another_thread(make: Any) -> None:
    engine = make()
    assert not engine.wait_for_work(0)
    engine.add(request("r", PROMPT[:3], greedy(1)))
    assert engine.wait_for_work(0)
    finish(engine)
    engine.step()
    assert not engine.wait_for_work(0)
    thread = threading.Thread(target=engine.wake)
    thread.start()
    assert engine.wait_for_work(30)
    thread.join()


def test_limits_and_load_say_what_there_is(make: Any, refs: list[AdapterRef]) -> None:
    engine = make(pages=40, max_model_tokens=50)
    limits = engine.limits()
    assert (limits.pool_pages, limits.pool_tokens, limits.max_model_tokens) == (40, 160, 50)
    assert limits.page_bytes * limits.pool_pages == engine._pool.data.nbytes
    engine.add(request("r", PROMPT[:9], greedy(3), refs[0]))
    answers: dict[str, Answer] = {}
    while "r" not in answers:
        step(engine, answers)
    load = engine.load()
    assert load.free_pages + load.kv_pages + load.adapter_pages == 40
    assert (load.running_requests, load.waiting_requests, load.resident_adapters) == (1, 0, 1)
    assert load.kv_pages == 3
