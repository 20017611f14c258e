"""Idempotency-Key on calls of models: an answer that ended is given again and billed once."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from loraplex.platform.settings import Settings
from tests.api.conftest import CallFactory, Tenant
from tests.api.raw_calls import BASE, ENDLESS, ledger, reservations
from tests.api.running import RunningGateway
from tests.api.waiting import eventually
from tests.engine.worker.echo_engine import POISON, EchoEngine

COMPLETIONS = "/v1/completions"
SHORT = ENDLESS | {"max_tokens": 4}


@pytest.fixture
def mine(gateway: RunningGateway, customer: Tenant) -> Iterator[httpx.Client]:
    with gateway.client(customer.key) as client:
        yield client


@pytest.fixture
def key() -> dict[str, str]:
    return {"Idempotency-Key": uuid4().hex}


def calls() -> list[tuple[str, dict[str, Any]]]:
    chat = {"model": BASE, "messages": [{"role": "user", "content": "la"}], "max_tokens": 4}
    usage = {"stream_options": {"include_usage": True}}
    return [
        (COMPLETIONS, SHORT),
        (COMPLETIONS, SHORT | {"stream": True, "n": 2} | usage),
        ("/v1/chat/completions", chat),
        ("/v1/chat/completions", chat | {"stream": True}),
    ]


@pytest.mark.parametrize(("path", "body"), calls(), ids=["whole", "stream", "chat", "chat stream"])
def test_an_answer_is_given_again_byte_for_byte_and_billed_once(
    path: str,
    body: dict[str, Any],
    mine: httpx.Client,
    key: dict[str, str],
    gateway_settings: Settings,
    customer: Tenant,
) -> None:
    first = mine.post(path, json=body, headers=key)
    again = mine.post(path, json=body, headers=key)
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.content == first.content
    for header in ("content-type", "x-adapter-version"):
        assert again.headers[header] == first.headers[header]
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    [row] = ledger(gateway_settings, customer)
    assert row.output_tokens == 4 * body.get("n", 1)


def test_while_the_first_is_under_way_the_second_waits_its_turn(
    mine: httpx.Client, key: dict[str, str], engine: EchoEngine
) -> None:
    body = ENDLESS | {"stream": True, "max_tokens": 20}
    with mine.stream("POST", COMPLETIONS, json=body, headers=key) as first:
        chunks = first.iter_raw()
        begun = next(chunks)
        engine.allowed.clear()
        try:
            waiting = mine.post(COMPLETIONS, json=body, headers=key)
        finally:
            engine.allowed.set()
        assert waiting.status_code == 409
        assert waiting.json()["error"]["code"] == "idempotent_request_under_way"
        assert int(waiting.headers["Retry-After"]) >= 1
        whole = begun + b"".join(chunks)
    assert mine.post(COMPLETIONS, json=body, headers=key).content == whole


def test_another_request_with_the_key_is_refused(mine: httpx.Client, key: dict[str, str]) -> None:
    mine.post(COMPLETIONS, json=SHORT, headers=key).raise_for_status()
    other = mine.post(COMPLETIONS, json=SHORT | {"stream": True}, headers=key)
    assert other.status_code == 422
    assert other.json()["error"]["code"] == "idempotency_key_reused"


def test_what_failed_or_was_refused_leaves_the_key_free(
    mine: httpx.Client, key: dict[str, str]
) -> None:
    bad = mine.post(COMPLETIONS, json=SHORT | {"max_tokens": -1}, headers=key)
    failed = mine.post(COMPLETIONS, json=SHORT | {"prompt": [POISON, 5]}, headers=key)
    assert (bad.status_code, failed.status_code) == (400, 503)
    good = mine.post(COMPLETIONS, json=SHORT, headers=key)
    assert (good.status_code, "idempotency-replayed" in good.headers) == (200, False)


def test_a_client_that_leaves_gives_its_key_back(
    gateway: RunningGateway,
    mine: httpx.Client,
    key: dict[str, str],
    engine: EchoEngine,
    gateway_settings: Settings,
    customer: Tenant,
    call: CallFactory,
) -> None:
    left = call(gateway, customer.key, ENDLESS | {"stream": True}, key)
    eventually("it to run", lambda: engine.running)
    left.close()
    eventually("its place to be free", lambda: not reservations(gateway_settings, customer))

    def is_free() -> bool:
        return mine.post(COMPLETIONS, json=SHORT, headers=key).status_code == 200

    eventually("the key to be free", is_free)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_an_answer_too_large_to_keep_is_refused_by_name_and_not_given_anew(
    stream: bool,
    mine: httpx.Client,
    key: dict[str, str],
    gateway_settings: Settings,
    customer: Tenant,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("loraplex.api.idempotency.MAX_BODY_BYTES", 100)
    body = SHORT | {"stream": stream}
    first = mine.post(COMPLETIONS, json=body, headers=key)
    assert first.status_code == 200
    assert first.content.endswith(b"[DONE]\n\n" if stream else b"}")
    again = mine.post(COMPLETIONS, json=body, headers=key)
    assert again.status_code == 409
    assert again.json()["error"]["code"] == "idempotent_answer_not_kept"
    assert "Retry-After" not in again.headers
    assert len(ledger(gateway_settings, customer)) == 1
