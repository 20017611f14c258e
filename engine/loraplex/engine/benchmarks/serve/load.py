"""The open loop: requests are sent when they arrive, however many are still unanswered."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

import httpx

from loraplex.engine.benchmarks.errors import InvalidWorkload
from loraplex.engine.benchmarks.serve.client import complete
from loraplex.engine.benchmarks.serve.outcome import Outcome
from loraplex.engine.benchmarks.serve.targets import Target
from loraplex.engine.benchmarks.serve.workload import Call

_EXPLANATIONS: Final = {
    "connection": "nobody answers there",
    "timeout": "it does not answer in time",
    "http_401": "the API key is missing or wrong",
    "http_404": "there is no such model, or not for this key",
}


async def offer(client: httpx.AsyncClient, schedule: Sequence[Call]) -> tuple[float, list[Outcome]]:
    """Send every call at its time and wait for all answers.

    The start, in `time.perf_counter` seconds, and the outcomes in order of arrival.
    """
    started_at = time.perf_counter()
    tasks = []
    async with asyncio.TaskGroup() as group:
        for call in schedule:
            intended_at = started_at + call.at
            # Also when it is late already, so that answers are read between two sends.
            await asyncio.sleep(max(0.0, intended_at - time.perf_counter()))
            tasks.append(group.create_task(complete(client, call.target, call.body, intended_at)))
    return started_at, [task.result() for task in tasks]


async def warm_up(client: httpx.AsyncClient, bodies: Sequence[tuple[Target, bytes]]) -> None:
    """Call each target once, one after the other, so that no measured request pays for loading.

    Raises InvalidWorkload where one does not answer.
    """
    for target, body in bodies:
        outcome = await complete(client, target, body, time.perf_counter())
        if outcome.error is not None:
            reason = _EXPLANATIONS.get(outcome.error, outcome.error)
            raise InvalidWorkload(
                f"{target.model} at {client.base_url} cannot be measured: {reason}.", field="url"
            )
