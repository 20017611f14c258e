"""Log-probabilities over HTTP; the engine's are -id, with the next ids as alternatives."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from loraplex.api.openai.answer_schemas import ChatChunk, ChatCompletion, Completion
from loraplex.api.text.base_text import BaseText
from tests.api.conftest import Tenant
from tests.api.running import RunningGateway
from tests.api.test_gateway import BASE, echo, events_of

PARROT = "a 🦜 sails"


@pytest.fixture
def http(gateway: RunningGateway, tenant: Tenant) -> Iterator[httpx.Client]:
    with gateway.client(tenant.key) as client:
        yield client


def chat(**more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Hi"}]
    return {"model": BASE, "messages": messages, "max_tokens": 12, "logprobs": True, **more}


def test_a_chats_tokens_have_their_logprobs_bytes_and_alternatives(
    http: httpx.Client, base_text: BaseText
) -> None:
    body = chat(top_logprobs=2)
    ids = base_text.encode_rendered_now(base_text.render(body["messages"]))
    answer = http.post("/v1/chat/completions", json=body)
    (choice,) = ChatCompletion.model_validate_json(answer.content).choices
    assert choice.logprobs is not None
    shown = choice.logprobs.content
    assert [token.logprob for token in shown] == [-float(one) for one in ids[:12]]
    for token, token_id in zip(shown, ids, strict=False):
        assert bytes(token.bytes) == base_text.tokens.of(token_id)
        assert [one.logprob for one in token.top_logprobs] == [-token_id - 1, -token_id - 2]


@pytest.mark.parametrize("stop", [None, ["sist", "system"]], ids=["to the end", "stopped"])
def test_a_streams_logprobs_are_the_whole_answers(
    stop: list[str] | None, http: httpx.Client
) -> None:
    body = chat(stop=stop)
    whole = http.post("/v1/chat/completions", json=body).json()
    (choice,) = whole["choices"]
    assert len(choice["logprobs"]["content"]) == whole["usage"]["completion_tokens"]
    streamed: list[Any] = []
    for event in events_of(http, "/v1/chat/completions", body)[:-1]:
        ChatChunk.model_validate(event)
        streamed += (event["choices"][0]["logprobs"] or {"content": []})["content"]
    assert streamed == choice["logprobs"]["content"]


def test_a_completions_tokens_have_offsets_into_its_text(
    http: httpx.Client, base_text: BaseText
) -> None:
    answer = http.post("/v1/completions", json=echo(PARROT, base_text, logprobs=1))
    (choice,) = Completion.model_validate_json(answer.content).choices
    logprobs = choice.logprobs
    assert logprobs is not None
    ids = base_text.encode_text_now(PARROT)
    assert logprobs.token_logprobs == [-float(one) for one in ids]
    assert logprobs.text_offset == sorted(logprobs.text_offset)
    for token, offset in zip(logprobs.tokens, logprobs.text_offset, strict=True):
        assert token.startswith("bytes:\\x") or PARROT[offset:].startswith(token)
    assert any(token.startswith("bytes:\\x") for token in logprobs.tokens)
    assert all(len(top) == 2 for top in logprobs.top_logprobs)
    streamed: list[str] = []
    for event in events_of(http, "/v1/completions", echo(PARROT, base_text, logprobs=1))[:-1]:
        streamed += event["choices"][0]["logprobs"]["tokens"]
    assert streamed == logprobs.tokens


def test_without_being_asked_nothing_tells_logprobs(http: httpx.Client) -> None:
    for more in ({}, {"stream": True}):
        body = chat(logprobs=False)
        if more:
            events = events_of(http, "/v1/chat/completions", body)[:-1]
            assert all(event["choices"][0]["logprobs"] is None for event in events)
        else:
            answer = http.post("/v1/chat/completions", json=body).json()
            assert answer["choices"][0]["logprobs"] is None
