"""The OpenAI routes over HTTP, with an engine that repeats the prompt, a token a step."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from loraplex.api.openai.answer_schemas import ChatChunk, ChatCompletion, Completion
from loraplex.api.text.base_text import BaseText
from tests.api.conftest import Tenant
from tests.api.running import RunningGateway

BASE = "smollm2-135m-instruct"
TEXTS = {
    "words": "Hello there, general words.",
    "emoji": "🦜🏴‍☠️ and 👩‍👩‍👧‍👦 sail",
    "cjk": "日本語と中文和한국어",
    "combining marks": "e\u0301n\u0303a\u030a\u0323 नमस्ते",
}


@pytest.fixture
def client(gateway: RunningGateway, tenant: Tenant) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=tenant.key, max_retries=0) as client:
        yield client


@pytest.fixture
def http(gateway: RunningGateway, tenant: Tenant) -> Iterator[httpx.Client]:
    with gateway.client(tenant.key) as client:
        yield client


def events_of(http: httpx.Client, path: str, body: dict[str, Any]) -> list[Any]:
    """Every event of a stream, `[DONE]` as a string."""
    with http.stream("POST", path, json=body | {"stream": True}) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line]
    assert all(line.startswith("data: ") for line in lines)
    payloads = [line.removeprefix("data: ") for line in lines]
    return [one if one == "[DONE]" else json.loads(one) for one in payloads]


def echo(text: str, base_text: BaseText, **more: Any) -> dict[str, Any]:
    """A completion whose answer is its prompt."""
    ids = base_text.encode_text_now(text)
    return {"model": BASE, "prompt": text, "max_tokens": len(ids), **more}


@pytest.mark.parametrize("name", TEXTS)
def test_joined_deltas_are_the_whole_answers_text(
    name: str, http: httpx.Client, base_text: BaseText
) -> None:
    body = echo(TEXTS[name], base_text)
    whole = http.post("/v1/completions", json=body).json()
    Completion.model_validate(whole)
    assert whole["choices"][0]["text"] == TEXTS[name]
    assert whole["choices"][0]["finish_reason"] == "length"
    assert whole["usage"] == {
        "prompt_tokens": body["max_tokens"],
        "completion_tokens": body["max_tokens"],
        "total_tokens": 2 * body["max_tokens"],
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    events = events_of(http, "/v1/completions", body)
    assert events.pop() == "[DONE]"
    pieces = [event["choices"][0]["text"] for event in events]
    assert "".join(pieces) == TEXTS[name]
    assert not any("\ufffd" in piece for piece in pieces)
    reasons = [event["choices"][0]["finish_reason"] for event in events]
    assert [reason for reason in reasons if reason] == ["length"]
    assert reasons[-1] == "length"


def test_a_stop_string_across_tokens_ends_both_kinds_of_answer_at_one_token(
    http: httpx.Client, base_text: BaseText
) -> None:
    text = "one two three four five six"
    stop = "ee fo"
    ids = base_text.encode_text_now(text)
    used = next(
        count for count in range(len(ids)) if stop in base_text._tokenizer.decode(ids[:count])
    )
    body = echo(text, base_text, stop=[stop], stream_options=None)
    whole = http.post("/v1/completions", json=body).json()
    assert whole["choices"][0] == {
        "index": 0,
        "text": "one two thr",
        "logprobs": None,
        "finish_reason": "stop",
    }
    assert whole["usage"]["completion_tokens"] == used
    events = events_of(http, "/v1/completions", body | {"stream_options": {"include_usage": True}})
    assert events.pop() == "[DONE]"
    assert events[-1]["choices"] == []
    assert events[-1]["usage"] == whole["usage"]
    assert "".join(e["choices"][0]["text"] for e in events[:-1]) == "one two thr"


def test_a_chat_stream_begins_with_the_role_and_ends_with_usage_and_done(
    http: httpx.Client,
) -> None:
    body = {
        "model": BASE,
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 8,
        "stream_options": {"include_usage": True},
    }
    events = events_of(http, "/v1/chat/completions", body)
    assert events.pop() == "[DONE]"
    for event in events:
        ChatChunk.model_validate(event)
        assert "usage" in event
    *chunks, last = events
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 8
    assert all(chunk["usage"] is None for chunk in chunks)
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [c["choices"][0]["finish_reason"] for c in chunks][-1] == "length"
    assert sum(c["choices"][0]["finish_reason"] is not None for c in chunks) == 1
    assert len({event["id"] for event in events}) == 1
    assert {event["model"] for event in events} == {BASE}


def test_without_include_usage_no_chunk_speaks_of_usage(http: httpx.Client) -> None:
    body = {"model": BASE, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
    events = events_of(http, "/v1/chat/completions", body)
    assert not any("usage" in event for event in events[:-1])


def test_a_chat_answers_through_openais_client(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=BASE, messages=[{"role": "user", "content": "Hi"}], max_completion_tokens=5, n=2
    )
    ChatCompletion.model_validate_json(answer.model_dump_json(exclude_unset=True))
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 10
    assert answer.model == BASE


def test_choices_of_several_prompts_keep_their_places(
    http: httpx.Client, base_text: BaseText
) -> None:
    prompts = ["one two", "three four"]
    body = {"model": BASE, "prompt": prompts, "n": 2, "max_tokens": 2, "echo": True}
    whole = http.post("/v1/completions", json=body).json()
    expected = [text * 2 for text in prompts for _ in range(2)]
    assert [choice["text"] for choice in whole["choices"]] == expected
    assert whole["usage"]["prompt_tokens"] == sum(
        len(base_text.encode_text_now(text)) for text in prompts
    )
    texts = [""] * 4
    finished = []
    for event in events_of(http, "/v1/completions", body)[:-1]:
        (choice,) = event["choices"]
        texts[choice["index"]] += choice["text"]
        finished += [choice["index"]] if choice["finish_reason"] else []
    assert texts == expected
    assert sorted(finished) == [0, 1, 2, 3]


def test_prompts_may_be_token_ids(http: httpx.Client, base_text: BaseText) -> None:
    ids = base_text.encode_text_now("token ids")
    body = {"model": BASE, "prompt": [ids, ids], "max_tokens": len(ids), "echo": True}
    choices = http.post("/v1/completions", json=body).json()["choices"]
    assert [choice["text"] for choice in choices] == ["token idstoken ids"] * 2
    answer = http.post("/v1/completions", json=body | {"prompt": [[1], [10**6]]})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "prompt[1][0]"


def test_a_prompt_without_tokens_is_refused(http: httpx.Client) -> None:
    answer = http.post("/v1/completions", json={"model": BASE, "prompt": ""})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "prompt"


def test_a_prompt_that_can_never_fit_is_told_both_numbers_and_holds_up_nobody(
    http: httpx.Client, base_text: BaseText
) -> None:
    text = "word " * 20_000
    answer = http.post("/v1/completions", json={"model": BASE, "prompt": text, "max_tokens": 4})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == ("context_length_exceeded", "prompt")
    assert str(len(base_text.encode_text_now(text))) in error["message"]
    assert "4096" in error["message"]
    assert http.post("/v1/completions", json=echo("next", base_text)).status_code == 200


def test_bad_parameters_have_openais_shape_and_name_the_parameter(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            model=BASE, messages=[{"role": "user", "content": "Hi"}], temperature=9
        )
    assert refused.value.param == "temperature"
    assert refused.value.code == "invalid_value"
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            model=BASE, messages=[{"role": "user", "content": "Hi"}], tools=[]
        )
    assert (refused.value.param, refused.value.code) == ("tools", "unsupported_parameter")


def test_an_unknown_model_is_404_model_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        client.completions.create(model="nobody/nothing:v3", prompt="Hi")
    assert refused.value.code == "model_not_found"
    assert refused.value.param == "model"


def test_a_text_of_megabytes_is_refused_without_being_tokenized(http: httpx.Client) -> None:
    body = {"model": BASE, "messages": [{"role": "user", "content": "x" * 4_000_000}]}
    answer = http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")
    assert "at least" in error["message"]


def test_an_object_of_too_many_names_is_refused_at_once(http: httpx.Client) -> None:
    answer = http.post("/v1/completions", json={f"k{place}": 1 for place in range(100_000)})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_json"


@pytest.mark.parametrize("body", ["{", "[]", '"x"', "", '{"model": "\\ud800"}', "[" * 100_000])
def test_a_body_that_is_no_json_object_is_refused(body: str, http: httpx.Client) -> None:
    answer = http.post("/v1/chat/completions", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_json"


def test_models_are_listed_and_found(client: openai.OpenAI) -> None:
    assert BASE in [model.id for model in client.models.list()]
    model = client.models.retrieve(BASE)
    assert (model.id, model.object, model.owned_by) == (BASE, "model", "loraplex")
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody/nothing")


def test_many_streams_at_once_each_get_their_own_text(
    gateway: RunningGateway, tenant: Tenant, base_text: BaseText
) -> None:
    texts = [f"stream number {place} says {place * 7}" for place in range(24)]

    def ask(text: str) -> str:
        with gateway.client(tenant.key) as http:
            events = events_of(http, "/v1/completions", echo(text, base_text))
        return "".join(event["choices"][0]["text"] for event in events[:-1])

    with ThreadPoolExecutor(24) as pool:
        assert list(pool.map(ask, texts)) == texts


def test_answers_carry_an_id_a_fingerprint_and_what_served_them(http: httpx.Client) -> None:
    answer = http.post("/v1/completions", json={"model": BASE, "prompt": "Hi", "max_tokens": 1})
    assert answer.headers["x-request-id"]
    assert answer.headers["x-adapter-version"] == BASE
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json()["system_fingerprint"].startswith("fp_")
