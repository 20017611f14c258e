"""The prefix cache as requests see it: less to compute, and never another token."""

from typing import Any

import msgspec
import pytest

from loraplex.engine.core import EngineCore
from loraplex.engine.protocol.errors import EngineFailure
from loraplex.engine.protocol.generation import FinishReason, GenerationRequest
from loraplex.engine.protocol.identity import TenantNamespace
from tests.engine.driving import Answer, greedy, request
from tests.engine.fake_device import expected_tokens, make_fake_engine

PROMPT = [(37 * place + 11) % 997 for place in range(40)]
BLOCK = 4
ROOMY: dict[str, Any] = {"max_step_tokens": 64}


def ask(name: str, prompt: list[int], tokens: int = 3, **changes: Any) -> GenerationRequest:
    return msgspec.structs.replace(request(name, prompt, greedy(tokens)), **changes)


def serve(engine: EngineCore, *requests: GenerationRequest) -> dict[str, Answer]:
    answers: dict[str, Answer] = {}
    for one in requests:
        engine.add(one)
    while engine.has_work:
        for output in engine.step():
            answers.setdefault(output.request_id, Answer()).take(output)
        engine.check_integrity()
    for one in requests:
        wanted = expected_tokens(one.prompt_token_ids, 0, one.sampling.max_tokens)
        assert answers[one.request_id].token_ids == wanted
    return answers


def cached(answer: Answer) -> int:
    assert answer.last is not None
    return answer.last.cached_tokens


def test_a_prompt_seen_before_costs_one_token_or_the_last_block() -> None:
    engine, device = make_fake_engine(64, **ROOMY)
    for length in (15, 16, 17, 18):
        prompt = [length, *PROMPT[1:length]]
        serve(engine, ask("first", prompt))
        before = device.submitted_tokens
        answer = serve(engine, ask("again", prompt))["again"]
        assert cached(answer) == (length - 1) // BLOCK * BLOCK, "all but one token, whole blocks"
        # The last token asked for is never computed.
        assert device.submitted_tokens - before == length - cached(answer) + 2
    assert engine.load().cached_tokens == 12 + 12 + 16 + 16


def test_the_next_turn_of_a_conversation_finds_the_answer_too() -> None:
    engine, _ = make_fake_engine(64, **ROOMY)
    answer = serve(engine, ask("turn 1", PROMPT[:10], tokens=8))["turn 1"]
    conversation = PROMPT[:10] + answer.token_ids
    answer = serve(engine, ask("turn 2", [*conversation, 1, 2, 3]))["turn 2"]
    assert cached(answer) == 16, "17 tokens were computed"


def test_requests_that_run_side_by_side_share_what_has_been_computed() -> None:
    engine, _ = make_fake_engine(24, **ROOMY)
    engine.add(ask("first", PROMPT[:20], tokens=20))
    engine.step()
    engine.add(ask("second", [*PROMPT[:20], 1], tokens=20))
    engine.step()
    assert engine.load().kv_pages == 6 + 1, "five blocks are held by both"
    engine.check_integrity()


@pytest.mark.parametrize("steps_ahead", [0, 1])
def test_blocks_of_a_step_that_failed_are_not_found(steps_ahead: int) -> None:
    engine, device = make_fake_engine(64, steps_ahead=steps_ahead, **ROOMY)
    engine.add(ask("fails", PROMPT[:20]))
    device.step_error = ZeroDivisionError("while it ran")
    while engine.has_work:
        engine.step()
    assert engine.load().cached_pages == 0
    assert cached(serve(engine, ask("again", PROMPT[:20]))["again"]) == 0


def test_blocks_of_a_request_whose_numbers_went_wrong_are_not_found() -> None:
    engine, device = make_fake_engine(64, **ROOMY)
    engine.add(ask("bad", PROMPT[:20], tokens=9))
    engine.step()
    device.bad_requests["bad"] = EngineFailure("Its logits are not numbers.")
    engine.step()
    assert not engine.has_work
    assert cached(serve(engine, ask("again", PROMPT[:20]))["again"]) == 0


def test_a_preempted_request_finds_its_own_blocks_again() -> None:
    engine, device = make_fake_engine(12, **ROOMY)
    requests = [ask(f"{number}", [number, *PROMPT[:7]], tokens=24) for number in range(3)]
    serve(engine, *requests)
    load = engine.load()
    assert load.preemptions > 0
    computed = sum(8 + 24 - 1 for _ in requests)
    assert device.submitted_tokens < computed + load.preemptions * 32, "not all was done again"
    assert load.cached_tokens == 0, "its own blocks are no hits of its prompt"


def test_tenants_share_public_prefixes_and_nothing_else() -> None:
    engine, _ = make_fake_engine(64, **ROOMY)
    others = TenantNamespace("others")
    serve(engine, ask("mine", PROMPT[:20], public_prefix_tokens=9))
    public = ask("public", PROMPT[:20], namespace=others, public_prefix_tokens=9)
    assert cached(serve(engine, public)["public"]) == 8, "two blocks lie wholly within nine tokens"
    private = ask("private", PROMPT[:20], namespace=TenantNamespace("third"))
    assert cached(serve(engine, private)["private"]) == 0


def test_a_public_prefix_never_reaches_beyond_the_prompt() -> None:
    engine, _ = make_fake_engine(64, **ROOMY)
    answer = serve(engine, ask("mine", PROMPT[:8], tokens=9, public_prefix_tokens=100))["mine"]
    conversation = PROMPT[:8] + answer.token_ids
    others = TenantNamespace("others")
    asked = ask("theirs", conversation, namespace=others, public_prefix_tokens=100)
    assert cached(serve(engine, asked)["theirs"]) == 8


def test_whoever_does_not_use_the_cache_neither_finds_nor_leaves_anything() -> None:
    engine, _ = make_fake_engine(64, **ROOMY)
    serve(engine, ask("alone", PROMPT[:20], use_prefix_cache=False))
    assert engine.load().cached_pages == 0
    serve(engine, ask("shares", PROMPT[:20]))
    alone = ask("alone", PROMPT[:20], use_prefix_cache=False)
    assert cached(serve(engine, alone)["alone"]) == 0


def test_a_model_whose_keys_depend_on_the_prompts_length_shares_nothing() -> None:
    engine, _ = make_fake_engine(64, shares_prefixes=False, **ROOMY)
    for name in ("first", "again"):
        assert cached(serve(engine, ask(name, PROMPT[:20]))[name]) == 0
    assert engine.load().cached_pages == 0


def test_cached_blocks_leave_before_anybody_is_preempted() -> None:
    engine, _ = make_fake_engine(12, **ROOMY)
    for number in range(4):
        serve(engine, ask(f"{number}", [number, *PROMPT[:30]], tokens=12))
    load = engine.load()
    assert load.preemptions == 0
    assert load.free_pages + load.cached_pages == 12


def test_a_cancelled_request_leaves_its_full_blocks() -> None:
    engine, _ = make_fake_engine(64, **ROOMY)
    engine.add(ask("cancelled", PROMPT[:20], tokens=9))
    engine.step()
    engine.cancel("cancelled")
    [last] = engine.step()
    assert last.finish_reason is FinishReason.CANCELLED
    assert engine.load().cached_pages == 5
    assert cached(serve(engine, ask("again", PROMPT[:20]))["again"]) == 16


def test_a_device_that_runs_ahead_keeps_what_it_writes_until_it_has() -> None:
    """A request that ends while the next step computes it holds its pages until that is over."""
    engine, _ = make_fake_engine(64, steps_ahead=1, **ROOMY)
    engine.add(ask("stops", PROMPT[:9], tokens=9))
    assert engine.step() == [], "the first step is on its way"
    engine.cancel("stops")
    assert engine.load().kv_pages == 3
    assert [output.request_id for output in engine.step()] == ["stops"]
    assert engine.load().kv_pages == 0


def test_a_stop_token_ends_a_request_though_the_device_is_a_step_ahead() -> None:
    engine, device = make_fake_engine(64, steps_ahead=1, **ROOMY)
    tokens = expected_tokens(PROMPT[:9], 0, 9)
    engine.add(request("stops", PROMPT[:9], greedy(9, (tokens[3],))))
    answer = Answer()
    while engine.has_work:
        for output in engine.step():
            answer.take(output)
        engine.check_integrity()
    assert answer.token_ids == tokens[:4]
    assert answer.finish_reason is FinishReason.STOP
    assert device.submitted_tokens == 9 + 4, "the row of the fifth token was thrown away"
    assert engine.wait_for_work(0), "the step that was ahead is still to be read"
    assert engine.step() == []
    assert engine.load().kv_pages == 0
    assert not engine.wait_for_work(0)


def test_a_device_that_runs_ahead_always_has_a_step_to_do() -> None:
    engine, device = make_fake_engine(64, steps_ahead=1, **ROOMY)
    engine.add(ask("one", PROMPT[:9], tokens=9))
    for _ in range(8):
        engine.step()
        assert len(device._waiting) == 1
