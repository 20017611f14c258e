"""The output with a request's first token tells how the worker spent the time until then."""

from pathlib import Path

from tests.engine.driving import greedy, request
from tests.engine.fake_device import make_fake_adapter, make_fake_engine
from tests.engine.gated import GatedSource


def test_it_is_told_once_and_adds_up() -> None:
    engine, _ = make_fake_engine(pages=16)
    engine.add(request("r", range(1, 12), greedy(3)))
    told = []
    while engine.has_work:
        told += [output.timing for output in engine.step()]
    first, *rest = told
    assert first is not None
    assert rest == [None, None]
    assert first.queue_seconds >= 0
    assert first.prefill_seconds > 0
    assert (first.adapter_after_seconds, first.adapter_seconds) == (0, 0)


def test_a_wait_for_the_adapter_is_a_part_of_the_queue(tmp_path: Path) -> None:
    source = GatedSource()
    adapter = make_fake_adapter(tmp_path, seed=1, rank=2)
    engine, _ = make_fake_engine(pages=16, adapters=source, loader_threads=1)
    try:
        engine.add(request("r", [1, 2, 3], greedy(1), adapter.ref))
        assert engine.step() == []
        source.let_through()
        outputs = []
        while engine.has_work:
            assert engine.wait_for_work(30)
            outputs += engine.step()
    finally:
        engine.close()
    (output,) = outputs
    timing = output.timing
    assert timing is not None
    assert timing.adapter_seconds > 0
    assert timing.adapter_after_seconds > 0
    assert timing.adapter_after_seconds + timing.adapter_seconds <= timing.queue_seconds
