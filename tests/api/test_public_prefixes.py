"""What the engine is told of a prompt that begins with a declared system message."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from loraplex.api.text.base_text import BaseText
from loraplex.engine.protocol.generation import GenerationRequest, Priority
from loraplex.platform.settings import Settings
from tests.api.conftest import Tenant
from tests.api.running import RunningGateway, running_gateway
from tests.api.talking_engine import TalkingEngine
from tests.api.waiting import eventually

BASE = "smollm2-135m-instruct"
PREFIXES = "/api/v1/admin/public-prefixes"
DECLARED = "You answer questions about parcels. Be short, be kind, and never promise a date."


@pytest.fixture(scope="module")
def operator(gateway: RunningGateway, operator_key: str) -> Iterator[httpx.Client]:
    with gateway.client(operator_key) as client:
        yield client
        for one in client.get(PREFIXES).json()["data"]:
            client.delete(f"{PREFIXES}/{one['name']}").raise_for_status()


@pytest.fixture(scope="module")
def declaring(gateway: RunningGateway, operator: httpx.Client) -> RunningGateway:
    declared = operator.put(f"{PREFIXES}/parcels", json={"text": DECLARED})
    assert declared.status_code == 200, declared.text
    return gateway


def told(
    gateway: RunningGateway, tenant: Tenant, engine: TalkingEngine, path: str, **body: Any
) -> list[GenerationRequest]:
    """What the engine was given of one call."""
    before = len(engine.taken)
    with gateway.client(tenant.key) as client:
        client.post(path, json={"model": BASE, "max_tokens": 1, **body}).raise_for_status()
    return engine.taken[before:]


def conversation(system: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": system}, {"role": "user", "content": "Where is it?"}]


def test_every_choice_of_a_declared_prompt_says_how_far_it_is_public(
    declaring: RunningGateway, tenant: Tenant, engine: TalkingEngine, base_text: BaseText
) -> None:
    requests = told(
        declaring, tenant, engine, "/v1/chat/completions", messages=conversation(DECLARED), n=2
    )
    assert len(requests) == 2
    for request in requests:
        ids = request.prompt_token_ids[: request.public_prefix_tokens]
        public = base_text._tokenizer.decode(ids, skip_special_tokens=False)
        assert DECLARED in public
        assert "Where" not in public


def test_a_completion_of_the_same_tokens_is_as_public(
    declaring: RunningGateway, tenant: Tenant, engine: TalkingEngine
) -> None:
    (chat,) = told(
        declaring, tenant, engine, "/v1/chat/completions", messages=conversation(DECLARED)
    )
    (completion,) = told(declaring, tenant, engine, "/v1/completions", prompt=chat.prompt_token_ids)
    assert completion.public_prefix_tokens == chat.public_prefix_tokens > 0


def test_an_undeclared_prompt_shares_no_more_than_the_templates_first_words(
    declaring: RunningGateway, tenant: Tenant, engine: TalkingEngine
) -> None:
    (request,) = told(
        declaring, tenant, engine, "/v1/chat/completions", messages=conversation("Be brief.")
    )
    assert request.public_prefix_tokens < 16


def test_what_is_declared_at_one_gateway_is_soon_public_at_every_other_and_withdrawn_too(
    declaring: RunningGateway,
    operator: httpx.Client,
    gateway_settings: Settings,
    tenant: Tenant,
    engine: TalkingEngine,
) -> None:
    path, messages = "/v1/chat/completions", conversation("Speak like a pirate, and of parrots.")
    with running_gateway(gateway_settings) as other:

        def public_tokens() -> int:
            (request,) = told(other, tenant, engine, path, messages=messages)
            return request.public_prefix_tokens

        before = public_tokens()
        told_here = operator.put(
            f"{PREFIXES}/pirates", json={"text": "Speak like a pirate, and of parrots."}
        ).json()
        assert (told_here["name"], told_here["declared_by"]) == ("pirates", "test")
        assert told_here["tokens"] > before
        eventually("the declaration", lambda: public_tokens() == told_here["tokens"], 5)
        assert operator.delete(f"{PREFIXES}/pirates").status_code == 204
        eventually("its end", lambda: public_tokens() == before, 5)
    assert operator.get(f"{PREFIXES}/pirates").status_code == 404


def test_a_list_tells_what_is_public_and_one_alone_its_text(
    declaring: RunningGateway, operator: httpx.Client
) -> None:
    (listed,) = operator.get(PREFIXES).json()["data"]
    assert (listed["name"], listed["size_bytes"]) == ("parcels", len(DECLARED))
    assert operator.get(f"{PREFIXES}/parcels").json() == {**listed, "text": DECLARED}


@pytest.mark.parametrize(
    ("name", "text", "field"),
    [("Parcels", "text", "name"), ("parcels", "é" * 200_000, "text"), ("parcels", "", "text")],
)
def test_a_declaration_that_cannot_be_is_refused_by_field(
    declaring: RunningGateway, operator: httpx.Client, name: str, text: str, field: str
) -> None:
    answer = operator.put(f"{PREFIXES}/{name}", json={"text": text})
    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert operator.get(f"{PREFIXES}/parcels").json()["text"] == DECLARED


def test_without_a_declaration_nothing_is_public_and_turns_are_everybodys_alike(
    declaring: RunningGateway, operator: httpx.Client, tenant: Tenant, engine: TalkingEngine
) -> None:
    operator.delete(f"{PREFIXES}/parcels").raise_for_status()
    (request,) = told(
        declaring, tenant, engine, "/v1/chat/completions", messages=conversation(DECLARED)
    )
    assert request.public_prefix_tokens == 0
    assert (request.priority, request.fair_weight) == (Priority.STANDARD, 1.0)
    assert request.use_prefix_cache
