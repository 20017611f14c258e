"""An engine says which adapters its requests use and wait for, by digest."""

from pathlib import Path

from loraplex.engine.protocol.workers import TOLD_ADAPTERS, AdaptersInUse
from tests.engine.driving import greedy, request
from tests.engine.fake_device import make_fake_adapter, make_fake_engine


def test_adapters_of_running_and_of_waiting_requests_are_told(tmp_path: Path) -> None:
    engine, _ = make_fake_engine(pages=64)
    one, two = (make_fake_adapter(tmp_path, seed=seed, rank=2).ref for seed in range(2))
    for number, adapter in enumerate([one, two, None, one]):
        engine.add(request(f"r{number}", [1, 2, 3], greedy(50), adapter))
    engine.step()
    both = tuple(sorted((one.spec.digest, two.spec.digest)))
    assert engine.adapters_in_use() == AdaptersInUse(waiting=both)
    engine._loader.run_one()
    engine._loader.run_one()
    engine.step()
    engine.step()
    assert engine.adapters_in_use() == AdaptersInUse(running=both)


def test_only_some_of_many_are_told(tmp_path: Path) -> None:
    engine, _ = make_fake_engine(pages=64)
    for seed in range(TOLD_ADAPTERS + 3):
        adapter = make_fake_adapter(tmp_path, seed=seed, rank=2).ref
        engine.add(request(f"r{seed}", [1, 2, 3], greedy(50), adapter))
    engine.step()
    assert len(engine.adapters_in_use().waiting) == TOLD_ADAPTERS
