"""What the prefix cache gives to whom, as a client's usage and an operator's dashboard tell it."""

import asyncio
import re
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select

from loraplex.engine.protocol.config import EngineConfig
from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.settings import Settings
from tests.e2e.conftest import ADAPTERS, BASE, PUBLIC_PROMPT, Platform, wait_for

pytestmark = pytest.mark.e2e

BLOCK_TOKENS = EngineConfig(model_dir="", base_name="", adapter_cache_dir="").block_tokens
RULES = "Rule: say what you know about the parcel and nothing else. " * 6


@dataclass(frozen=True)
class Answer:
    request_id: str
    text: str
    prompt_tokens: int
    cached_tokens: int


def ask(platform: Platform, tenant: str, model: str, messages: list[dict[str, str]]) -> Answer:
    body = {"model": model, "messages": messages, "max_tokens": 12, "temperature": 0}
    with platform.client(platform.key(tenant)) as client:
        answer = client.post("/v1/chat/completions", json=body).raise_for_status().json()
    usage = answer["usage"]
    return Answer(
        answer["id"].removeprefix("chatcmpl-"),
        answer["choices"][0]["message"]["content"],
        usage["prompt_tokens"],
        usage["prompt_tokens_details"]["cached_tokens"],
    )


def two_turns(
    platform: Platform, tenant: str, model: str, system: str
) -> tuple[Answer, Answer, list[dict[str, str]]]:
    """A conversation's first and second answer, and what the second was asked."""
    messages = [
        {"role": "system", "content": system},
        {"role": "user", "content": "Where is my parcel?"},
    ]
    first = ask(platform, tenant, model, messages)
    messages += [
        {"role": "assistant", "content": first.text},
        {"role": "user", "content": "And when does it come?"},
    ]
    return first, ask(platform, tenant, model, messages), messages


def only_here(text: str = RULES) -> str:
    """A system prompt that no other test has used."""
    return f"Desk {uuid4().hex}. {text}"


def ledgered(platform: Platform, *answers: Answer) -> dict[str, tuple[int, int]]:
    """Prompt and cached tokens of the calls' ledger rows, by request."""

    async def read() -> Any:
        url = Settings(data_dir=platform.data_dir).database_system_url
        assert url is not None
        database = Database(url.get_secret_value(), pool_size=1)
        try:
            async with database.unit_of_work() as session:
                ids = [answer.request_id for answer in answers]
                rows = select(LedgerEntry).where(LedgerEntry.request_id.in_(ids))
                return list(await session.scalars(rows))
        finally:
            await database.dispose()

    return {row.request_id: (row.prompt_tokens, row.cached_tokens) for row in asyncio.run(read())}


def adapter_of(platform: Platform, tenant: str) -> str:
    name: str = platform.credentials["tenants"][tenant]["adapters"][0]
    return name


@pytest.mark.parametrize("with_adapter", [False, True], ids=["the base", "an adapter"])
def test_a_second_turn_finds_the_full_blocks_of_the_first(
    platform: Platform, with_adapter: bool
) -> None:
    model = adapter_of(platform, "acme") if with_adapter else BASE
    first, second, messages = two_turns(platform, "acme", model, only_here())
    assert first.cached_tokens == 0
    assert second.cached_tokens % BLOCK_TOKENS == 0
    assert first.prompt_tokens - BLOCK_TOKENS <= second.cached_tokens < second.prompt_tokens
    again = ask(platform, "acme", model, messages)
    assert again.cached_tokens >= second.cached_tokens
    assert again.text == second.text
    assert ledgered(platform, first, second, again) == {
        answer.request_id: (answer.prompt_tokens, answer.cached_tokens)
        for answer in (first, second, again)
    }


def test_a_neighbours_identical_prompt_finds_nothing_and_has_the_same_answer(
    platform: Platform,
) -> None:
    _, mine, messages = two_turns(platform, "acme", BASE, only_here())
    theirs = ask(platform, "globex", BASE, messages)
    assert (mine.cached_tokens > 0, theirs.cached_tokens) == (True, 0)
    assert theirs.text == mine.text
    assert ledgered(platform, theirs) == {theirs.request_id: (theirs.prompt_tokens, 0)}


def test_another_adapters_identical_prompt_finds_nothing(platform: Platform) -> None:
    _, mine, messages = two_turns(platform, "acme", BASE, only_here())
    assert mine.cached_tokens > 0
    assert ask(platform, "acme", adapter_of(platform, "acme"), messages).cached_tokens == 0


def test_the_same_adapter_of_a_neighbour_finds_nothing(platform: Platform) -> None:
    for tenant in ("acme", "globex"):
        version = platform.upload(platform.key(tenant), "same-bytes", ADAPTERS / "shout")
        assert version["status"] == "ready", version
    _, mine, messages = two_turns(platform, "acme", "same-bytes", only_here())
    theirs = ask(platform, "globex", "same-bytes", messages)
    assert (mine.cached_tokens > 0, theirs.cached_tokens) == (True, 0)
    assert theirs.text == mine.text


def test_a_declared_system_prompt_is_stored_once_for_all_tenants(platform: Platform) -> None:
    def asked(tenant: str, model: str, system: str, user: str) -> Answer:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        return ask(platform, tenant, model, messages)

    question = f"Is parcel {uuid4().hex} on its way?"
    mine = asked("acme", BASE, PUBLIC_PROMPT, question)
    theirs = asked("globex", BASE, PUBLIC_PROMPT, question)
    assert theirs.text == mine.text
    assert theirs.cached_tokens >= 3 * BLOCK_TOKENS
    # The user's own words lie behind the barrier, though both asked the same.
    assert theirs.cached_tokens < theirs.prompt_tokens - BLOCK_TOKENS
    assert asked("acme", BASE, PUBLIC_PROMPT, question).cached_tokens > theirs.cached_tokens

    undeclared = only_here(PUBLIC_PROMPT)
    asked("acme", BASE, undeclared, question)
    assert asked("globex", BASE, undeclared, question).cached_tokens == 0
    adapter = adapter_of(platform, "globex")
    assert asked("globex", adapter, PUBLIC_PROMPT, question).cached_tokens == 0


def test_operators_see_what_the_cache_holds_and_spares(platform: Platform) -> None:
    before = sum(worker["load"]["cached_tokens"] for worker in platform.workers())
    _, second, _ = two_turns(platform, "acme", BASE, only_here())

    def told() -> list[dict[str, Any]] | None:
        workers = platform.workers()
        cached = sum(worker["load"]["cached_tokens"] for worker in workers)
        return workers if cached >= before + second.cached_tokens else None

    for worker in wait_for("the heartbeat after the call", told):
        load = worker["load"]
        assert load["cached_pages"] > 0
        assert load["stalls"] == 0
        parts = ("free_pages", "kv_pages", "cached_pages", "adapter_pages")
        assert sum(load[part] for part in parts) == worker["pool_pages"]
    with platform.client() as client:
        metrics = client.get("/metrics").text
    hits = re.search(r"^vllm:prefix_cache_hits_total\{.*\} (\S+)$", metrics, re.MULTILINE)
    assert hits and float(hits[1]) >= before + second.cached_tokens
