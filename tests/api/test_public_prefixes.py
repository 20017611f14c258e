"""What the engine is told of a prompt that begins with a declared system message."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loraplex.api.text.base_text import BaseText
from loraplex.engine.protocol.generation import GenerationRequest, Priority
from loraplex.engine.serving.server import WorkerServer
from loraplex.platform.settings import Settings
from tests.api.conftest import Tenant
from tests.api.running import RunningGateway, running_gateway
from tests.api.talking_engine import TalkingEngine

BASE = "smollm2-135m-instruct"
DECLARED = "You answer questions about parcels. Be short, be kind, and never promise a date."


@pytest.fixture(scope="module")
def declaring(
    gateway_settings: Settings,
    worker: WorkerServer,
    registered_base: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningGateway]:
    folder: Path = tmp_path_factory.mktemp("public")
    (folder / "parcels.txt").write_text(f"{DECLARED}\n")
    settings = gateway_settings.model_copy(update={"public_prefixes_dir": folder})
    with running_gateway(settings) as gateway:
        yield gateway


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


def test_without_declarations_nothing_is_public_and_turns_are_everybodys_alike(
    gateway: RunningGateway, tenant: Tenant, engine: TalkingEngine
) -> None:
    (request,) = told(
        gateway, tenant, engine, "/v1/chat/completions", messages=conversation(DECLARED)
    )
    assert request.public_prefix_tokens == 0
    assert (request.priority, request.fair_weight) == (Priority.STANDARD, 1.0)
    assert request.use_prefix_cache
