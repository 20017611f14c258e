"""A run of `bench serve`: one rate after the other, each to its last answer."""

from collections.abc import AsyncIterator, Sequence

import msgspec

from loraplex.engine.benchmarks.serve.client import http_client
from loraplex.engine.benchmarks.serve.load import offer, warm_up
from loraplex.engine.benchmarks.serve.summary import RateResult, summarize
from loraplex.engine.benchmarks.serve.targets import Target
from loraplex.engine.benchmarks.serve.workload import TOKEN_IDS, Workload, body, calls
from loraplex.engine.protocol.objectives import Objectives


async def sweep(
    url: str,
    targets: Sequence[Target],
    workload: Workload,
    rates: Sequence[float],
    slo: Objectives,
    *,
    timeout_seconds: float,
    warms_up: bool,
) -> AsyncIterator[RateResult]:
    """Measure each rate (requests a second) in turn. Raises InvalidWorkload before the first."""
    workload.check()
    one_token = msgspec.structs.replace(workload, output_tokens=1)
    async with http_client(url, timeout_seconds) as client:
        if warms_up:
            prompt = [TOKEN_IDS[0]]
            await warm_up(client, [(target, body(one_token, target, prompt)) for target in targets])
        for rate in rates:
            started_at, outcomes = await offer(client, calls(workload, targets, rate))
            yield summarize(
                outcomes,
                slo,
                started_at=started_at,
                url=str(client.base_url),
                process=workload.process,
                offered_rate=rate,
            )
