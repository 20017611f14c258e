"""Two workers and two gateways: requests spread, and losing one of either is survived."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.conftest import BASE, Platform, start_platform, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, smollm2_dir: Path) -> Iterator[Platform]:
    started = start_platform(
        tmp_path_factory.mktemp("fleet"),
        "--workers",
        "2",
        "--gateways",
        "2",
        model_dir=smollm2_dir,
        LORAPLEX_POOL_BYTES=str(512 * 1024 * 1024),
    )
    wait_for("two live workers", lambda: live_workers(started) == 2)
    yield started
    started.stop()


def live_workers(platform: Platform) -> int:
    return sum(worker["state"] == "live" for worker in platform.workers())


def complete(platform: Platform, max_tokens: int = 8) -> int:
    with platform.client(platform.key("acme")) as client:
        return client.post(
            "/v1/completions",
            json={
                "model": BASE,
                "prompt": "Once upon a time",
                "max_tokens": max_tokens,
                "ignore_eos": True,
            },
        ).status_code


def test_requests_spread_over_both_workers(fleet: Platform) -> None:
    before = {worker["id"]: worker["load"]["output_tokens"] for worker in fleet.workers()}
    with ThreadPoolExecutor(16) as threads:
        assert set(threads.map(lambda _: complete(fleet), range(16))) == {200}

    def both_worked() -> bool:
        now = {worker["id"]: worker["load"]["output_tokens"] for worker in fleet.workers()}
        return len(now) == 2 and all(now[worker] > before.get(worker, 0) for worker in now)

    wait_for("both workers to have sampled tokens", both_worked, seconds=10)


def test_losing_a_worker_is_survived(fleet: Platform) -> None:
    victim = fleet.children("loraplex.engine.worker")[0]
    with ThreadPoolExecutor(8) as threads:
        jobs = [threads.submit(complete, fleet, 24) for _ in range(8)]
        wait_for("work to run", lambda: any(w["load"]["running_requests"] for w in fleet.workers()))
        victim.kill()
        codes = [job.result() for job in jobs]
    assert set(codes) <= {200, 503}
    assert complete(fleet) == 200
    wait_for("the worker to come back", lambda: live_workers(fleet) == 2, seconds=90)


def test_losing_a_gateway_is_survived(fleet: Platform) -> None:
    gateways = fleet.children("loraplex.platform.cli gateway")
    assert len(gateways) == 2
    gateways[0].kill()
    assert complete(fleet) == 200
    wait_for(
        "the gateway to come back",
        lambda: len(fleet.children("loraplex.platform.cli gateway")) == 2,
    )


def test_the_limit_on_concurrent_requests_holds_over_both_gateways(fleet: Platform) -> None:
    with ThreadPoolExecutor(80) as threads:
        codes = list(threads.map(lambda _: complete(fleet, 4), range(80)))
    assert set(codes) <= {200, 429}
    assert codes.count(200) >= 64
