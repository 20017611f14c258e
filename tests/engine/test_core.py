"""The engine's promises to whoever drives it, on a tiny model."""

import threading
from typing import Any

import pytest

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.generation import FinishReason
from loraplex.engine.protocol.sampling import SamplingParams
from tests.engine.driving import Answer, finish, greedy, request, run, step
from tests.engine.tiny_engines import PROMPT, nobody_holds_pages

# PEFT asks Transformers by a name that Transformers has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")


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
