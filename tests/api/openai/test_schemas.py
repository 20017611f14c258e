"""What a body may say, and how the first thing wrong in it is named."""

import json
from collections.abc import Mapping
from typing import Any

import pydantic_core
import pytest
from openai.types import completion_create_params
from openai.types.chat import completion_create_params as chat_create_params

from loraplex.api.openai.parameters import CHAT_UNSERVED, COMPLETION_UNSERVED
from loraplex.api.openai.schemas import ChatBody, CompletionBody, GenerationBody
from loraplex.api.refusals import (
    InvalidValue,
    MissingParameter,
    UnknownParameter,
    UnsupportedParameter,
)
from loraplex.api.validation import validate, without_nulls
from loraplex.engine.protocol.errors import DomainError

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
COMPLETION = {"model": "m", "prompt": "Hi"}
EXTENSIONS = {"top_k", "min_p", "repetition_penalty", "min_tokens", "ignore_eos", "stop_token_ids"}


def chat(patch: Mapping[str, Any]) -> ChatBody:
    return validate(ChatBody, parsed(CHAT | dict(patch)), CHAT_UNSERVED)


def completion(patch: Mapping[str, Any]) -> CompletionBody:
    return validate(CompletionBody, parsed(COMPLETION | dict(patch)), COMPLETION_UNSERVED)


def parsed(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body as it comes off the wire; NaN and Infinity as Python's json writes them."""
    value: dict[str, Any] = without_nulls(pydantic_core.from_json(json.dumps(body)))
    return value


@pytest.mark.parametrize(
    ("openai_params", "body", "unserved"),
    [
        (chat_create_params.CompletionCreateParamsBase, ChatBody, CHAT_UNSERVED),
        (completion_create_params.CompletionCreateParamsBase, CompletionBody, COMPLETION_UNSERVED),
    ],
    ids=["chat", "completions"],
)
def test_every_parameter_of_openais_client_is_served_or_refused(
    openai_params: type, body: type[GenerationBody], unserved: Mapping[str, str]
) -> None:
    theirs = set(openai_params.__annotations__) | {"stream"}
    ours = set(body.model_fields)
    assert theirs <= ours | set(unserved)
    assert not ours & set(unserved)
    assert ours - theirs <= EXTENSIONS
    assert ours >= EXTENSIONS


@pytest.mark.parametrize("name", CHAT_UNSERVED)
def test_what_is_not_served_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedParameter) as refused:
        chat({name: [{"anything": 1}]})
    assert refused.value.field == name


@pytest.mark.parametrize("name", [*ChatBody.model_fields, *CHAT_UNSERVED])
def test_null_is_the_same_as_absent(name: str) -> None:
    if name in CHAT:
        with pytest.raises(MissingParameter) as refused:
            chat({name: None})
        assert refused.value.field == name
    else:
        assert chat({name: None}) == chat({})


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"temperature": 9}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"temperature": "0"}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"top_p": 0}, "top_p"),
        ({"n": 0}, "n"),
        ({"n": True}, "n"),
        ({"n": 1.5}, "n"),
        ({"n": 17}, "n"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 10**30}, "max_tokens"),
        ({"max_completion_tokens": "many"}, "max_completion_tokens"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"stop": ""}, "stop"),
        ({"stop": ["a", 1]}, "stop[1]"),
        ({"stop": 7}, "stop"),
        ({"stream": "yes"}, "stream"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"stream_options": {"other": True}}, "stream_options.other"),
        ({"seed": 2**63}, "seed"),
        ({"presence_penalty": 2.1}, "presence_penalty"),
        ({"frequency_penalty": -2.1}, "frequency_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"logit_bias": {"1": 101}}, "logit_bias.1"),
        ({"logit_bias": [1]}, "logit_bias"),
        ({"logprobs": 1}, "logprobs"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"top_k": -2}, "top_k"),
        ({"min_p": 1.1}, "min_p"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"ignore_eos": 1}, "ignore_eos"),
        ({"stop_token_ids": [-1]}, "stop_token_ids[0]"),
        ({"store": True}, "store"),
        ({"service_tier": "flex"}, "service_tier"),
        ({"modalities": ["text", "audio"]}, "modalities[1]"),
        ({"response_format": {"type": "json_object"}}, "response_format.type"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages[0].content[0].type",
        ),
        (
            {"messages": [{"role": "assistant", "content": "x", "tool_calls": [{}]}]},
            "messages[0].tool_calls",
        ),
        ({"model": ""}, "model"),
        ({"model": 3}, "model"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_place(patch: Any, field: str) -> None:
    with pytest.raises((InvalidValue, MissingParameter, UnknownParameter)) as refused:
        chat(patch)
    assert refused.value.field == field
    assert field in refused.value.message


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[]]}, "prompt[0]"),
        ({"prompt": [1, "a"]}, "prompt[1]"),
        ({"prompt": ["a", 1]}, "prompt[1]"),
        ({"prompt": [[1], "a"]}, "prompt[1]"),
        ({"prompt": [True]}, "prompt[0]"),
        ({"prompt": [-1]}, "prompt[0]"),
        ({"prompt": {"text": "a"}}, "prompt"),
        ({"logprobs": 6}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"suffix": " end"}, "suffix"),
        ({"echo": "yes"}, "echo"),
        ({"best_of": 0}, "best_of"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "messages"),
    ],
)
def test_a_bad_value_of_a_completion_is_refused_by_its_place(patch: Any, field: str) -> None:
    with pytest.raises((InvalidValue, MissingParameter, UnknownParameter)) as refused:
        completion(patch)
    assert refused.value.field == field


def test_an_unknown_parameter_is_refused_by_name() -> None:
    with pytest.raises(UnknownParameter) as refused:
        chat({"temprature": 0})
    assert refused.value.field == "temprature"


@pytest.mark.parametrize(
    "field", ["priority", "fair_weight", "public_prefix_tokens", "use_prefix_cache", "cache_salt"]
)
def test_what_the_engine_is_told_of_turns_and_caches_is_no_clients_choice(field: str) -> None:
    for read in (chat, completion):
        with pytest.raises(UnknownParameter) as refused:
            read({field: 0})
        assert refused.value.field == field


def test_a_refusal_repeats_numbers_and_never_text() -> None:
    with pytest.raises(DomainError) as refused:
        chat({"temperature": 9})
    assert (refused.value.value, "9" in refused.value.message) == (9, True)
    with pytest.raises(DomainError) as refused:
        chat({"temperature": "lpx_secret"})
    assert refused.value.value is None
    assert "secret" not in refused.value.message


@pytest.mark.parametrize(
    "prompt", ["a", ["a", "b"], [1, 2], [[1], [2, 3]]], ids=["text", "texts", "ids", "id lists"]
)
def test_every_form_of_prompt_is_taken(prompt: Any) -> None:
    assert completion({"prompt": prompt}).prompt == prompt


def test_harmless_parameters_are_accepted() -> None:
    body = chat(
        {
            "user": "u",
            "metadata": {"a": "b"},
            "store": False,
            "service_tier": "auto",
            "modalities": ["text"],
            "response_format": {"type": "text"},
            "tool_choice": "none",
            "prompt_cache_key": "k",
            "safety_identifier": "s",
            "n": 1,
            "temperature": 1,
            "stop": None,
            "messages": [{"role": "user", "name": "x", "content": [{"type": "text", "text": "a"}]}],
        }
    )
    assert body.messages[0].text == "a"


def test_nulls_inside_messages_are_absent_too() -> None:
    message = {"role": "user", "content": "Hi", "name": None, "tool_calls": None, "refusal": None}
    assert chat({"messages": [message]}) == chat({})
