"""A client that hangs up frees what it held, streaming or not."""

import http.client
import json
from typing import Any

import pytest

from tests.e2e.conftest import BASE, Platform, wait_for

pytestmark = pytest.mark.e2e

ENDLESS: dict[str, Any] = {
    "model": BASE,
    "messages": [{"role": "user", "content": "Count to a thousand."}],
    "max_tokens": 2000,
    "ignore_eos": True,
}


def running_requests(platform: Platform) -> int:
    return sum(
        worker["load"]["running_requests"] + worker["load"]["waiting_requests"]
        for worker in platform.workers()
    )


def start(platform: Platform, stream: bool) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", platform.port, timeout=60)
    connection.request(
        "POST",
        "/v1/chat/completions",
        json.dumps(ENDLESS | {"stream": stream}),
        {"Authorization": f"Bearer {platform.key('acme')}", "Content-Type": "application/json"},
    )
    return connection


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "not streaming"])
def test_a_closed_socket_frees_the_requests_pages(platform: Platform, stream: bool) -> None:
    wait_for("earlier requests to end", lambda: running_requests(platform) == 0)
    pages_before = sum(worker["load"]["kv_pages"] for worker in platform.workers())
    connection = start(platform, stream)
    wait_for("the request to run", lambda: running_requests(platform) == 1)
    connection.close()
    wait_for("the request to end", lambda: running_requests(platform) == 0, seconds=10)
    assert sum(worker["load"]["kv_pages"] for worker in platform.workers()) == pages_before
