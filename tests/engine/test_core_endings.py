"""Requests that end before their time, and what they leave to the others."""

from typing import Any

import pytest
import torch

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.generation import FinishReason
from tests.engine.driving import Answer, finish, greedy, request, run, step
from tests.engine.gated import GatedSource
from tests.engine.tiny_engines import PROMPT

# PEFT asks Transformers by a name that Transformers has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")


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
