"""Requests that wait while nothing could ever wake them are noticed once, and helped."""

import logging

import pytest

from loraplex.engine.core import EngineCore
from loraplex.engine.memory.pool import PageId
from loraplex.engine.protocol.generation import FinishReason, RequestOutput
from tests.engine.driving import greedy, request
from tests.engine.fake_device import make_fake_engine

PAGES = 8


def stalled_engine(lost_pages: int) -> tuple[EngineCore, list[PageId]]:
    """An engine that has lost pages to a defect, and a request that needs all of them."""
    engine, _ = make_fake_engine(PAGES, max_step_tokens=64)
    lost = engine._pool.take(lost_pages)
    engine.add(request("r", range(4 * PAGES - 2), greedy(2)))
    return engine, lost


def run_to_the_end(engine: EngineCore) -> list[RequestOutput]:
    outputs: list[RequestOutput] = []
    while engine.has_work:
        assert engine.wait_for_work(0), "a stall is no reason to sleep"
        outputs += engine.step()
    return outputs


def test_a_request_that_nothing_can_help_ends_with_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine, _ = stalled_engine(2)
    [last] = run_to_the_end(engine)
    assert last.finish_reason is FinishReason.ERROR
    assert last.failure is not None
    assert "no room" in last.failure.message
    assert engine.load().stalls == 1
    [record] = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert "1 requests wait, nothing runs and nothing loads, with 6 pages free" in record.message


def test_what_comes_back_meanwhile_heals_the_stall() -> None:
    engine, lost = stalled_engine(2)
    assert engine.step() == []
    assert engine.load().stalls == 1
    engine._pool.give_back(lost)
    assert run_to_the_end(engine)[-1].finish_reason is FinishReason.LENGTH
    assert engine.load().stalls == 1


def test_a_stall_is_counted_once_and_the_next_one_again(caplog: pytest.LogCaptureFixture) -> None:
    engine, _ = stalled_engine(2)
    engine.add(request("other", range(4 * PAGES - 2), greedy(2)))
    reasons = [output.finish_reason for output in run_to_the_end(engine)]
    assert reasons == [FinishReason.ERROR, FinishReason.ERROR]
    assert engine.load().stalls == 1
    engine.add(request("fits", range(8), greedy(2)))
    run_to_the_end(engine)
    engine.add(request("again", range(4 * PAGES - 2), greedy(2)))
    run_to_the_end(engine)
    assert engine.load().stalls == 2
    assert len(caplog.records) == 2


def test_waiting_for_a_load_or_behind_somebody_is_no_stall() -> None:
    engine, _ = make_fake_engine(PAGES, max_step_tokens=64, max_running_requests=1)
    for name in "abc":
        engine.add(request(name, range(20), greedy(2)))
    run_to_the_end(engine)
    assert engine.load().stalls == 0
