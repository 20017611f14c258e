"""An alias that moves under load: every request is served by one version, and none fails."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.e2e.conftest import ADAPTERS, EXPECTED, Platform

pytestmark = pytest.mark.e2e

ALIAS = "/api/v1/adapters/flips/aliases/prod"
MESSAGES = EXPECTED["adapters"]["pirate"][0]["messages"]
CALLERS, CALLS = 4, 6


def answered(client: httpx.Client, model: str, conversation: str) -> tuple[str, str]:
    """Which version says it served a greedy answer, and the answer."""
    answer = client.post(
        "/v1/chat/completions",
        json={"model": model, "messages": MESSAGES, "max_tokens": 8, "temperature": 0},
        headers={"x-conversation-id": conversation},
    )
    assert answer.status_code == 200, answer.text
    text: str = answer.json()["choices"][0]["message"]["content"]
    return answer.headers["x-adapter-version"], text


def test_each_answer_is_that_of_the_version_its_header_names(platform: Platform) -> None:
    key = platform.key("acme")
    for adapter in ("pirate", "shout"):
        assert platform.upload(key, "flips", ADAPTERS / adapter)["status"] == "ready"
    with platform.client(key) as client:
        says = dict(answered(client, f"flips:v{number}", "first") for number in (1, 2))
        assert says.keys() == {"acme/flips:v1", "acme/flips:v2"}
        assert len(set(says.values())) == 2, "the versions can be told apart"
        etag = client.put(ALIAS, json={"version": 1}).headers["ETag"]

        def call_on(caller: int) -> list[tuple[str, str]]:
            return [answered(client, "flips", f"{caller}-{number}") for number in range(CALLS)]

        with ThreadPoolExecutor(CALLERS) as threads:
            calls = [threads.submit(call_on, caller) for caller in range(CALLERS)]
            etag = flip_while_running(client, calls, etag)
        served = [one for call in calls for one in call.result()]
    assert all(text == says[version] for version, text in served)
    assert {version for version, _ in served} == says.keys()
    assert len(served) == CALLERS * CALLS
    assert int(etag.strip('"')) > 2, "the alias moved under the load"


def flip_while_running(client: httpx.Client, calls: list[Future[Any]], etag: str) -> str:
    """Point the alias forth and back until all calls are answered; its last ETag."""
    version = 1
    while not all(call.done() for call in calls):
        version = 3 - version
        moved = client.put(ALIAS, json={"version": version}, headers={"If-Match": etag})
        assert moved.status_code == 200, moved.text
        etag = moved.headers["ETag"]
    return etag
