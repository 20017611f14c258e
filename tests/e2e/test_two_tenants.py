"""Two tenants, four adapters, the stock OpenAI client, one engine process."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from tests.e2e.conftest import ADAPTERS, BASE, EXPECTED, Platform

pytestmark = pytest.mark.e2e


def client(platform: Platform, tenant: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{platform.base_url}/v1", api_key=platform.key(tenant))


def streamed_text(api: openai.OpenAI, model: str, messages: Any) -> str:
    stream = api.chat.completions.create(
        model=model,
        messages=messages,
        max_tokens=EXPECTED["max_tokens"],
        temperature=0,
        stream=True,
    )
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def is_what_peft_says(text: str, item: dict[str, Any]) -> bool:
    """Equal, or equal up to the first step whose two best logits nearly tie."""
    if item["safe_text"] == item["text"]:
        return bool(text == item["text"])
    return text.startswith(item["safe_text"])


def test_four_adapters_of_two_tenants_stream_at_once_what_peft_says(platform: Platform) -> None:
    jobs = [
        (tenant, adapter, item)
        for tenant, entry in platform.credentials["tenants"].items()
        for adapter in entry["adapters"]
        for item in EXPECTED["adapters"][adapter][:3]
    ]
    assert len({adapter for _, adapter, _ in jobs}) == 4
    clients = {tenant: client(platform, tenant) for tenant in ("acme", "globex")}
    with ThreadPoolExecutor(len(jobs)) as threads:
        texts = threads.map(
            lambda job: streamed_text(clients[job[0]], job[1], job[2]["messages"]), jobs
        )
    wrong = [
        (adapter, text, item["text"])
        for (_, adapter, item), text in zip(jobs, texts, strict=True)
        if not is_what_peft_says(text, item)
    ]
    assert not wrong
    assert len(platform.children("loraplex.engine.worker")) == 1


def test_the_same_name_means_each_tenants_own_adapter(platform: Platform) -> None:
    own = {"acme": "pirate", "globex": "shout"}
    for tenant, adapter in own.items():
        version = platform.upload(platform.key(tenant), "support", ADAPTERS / adapter)
        assert version["status"] == "ready", version
    for tenant, adapter in own.items():
        item = EXPECTED["adapters"][adapter][0]
        text = streamed_text(client(platform, tenant), "support", item["messages"])
        assert is_what_peft_says(text, item)


def test_a_neighbours_model_does_not_exist(platform: Platform) -> None:
    theirs = platform.credentials["tenants"]["globex"]["adapters"][0]
    with pytest.raises(openai.NotFoundError) as refusal:
        streamed_text(
            client(platform, "acme"), f"globex/{theirs}", [{"role": "user", "content": "hi"}]
        )
    assert refusal.value.code == "model_not_found"


def test_every_listed_model_is_callable(platform: Platform) -> None:
    for tenant in ("acme", "globex"):
        api = client(platform, tenant)
        listed = [model.id for model in api.models.list()]
        assert BASE in listed
        for model in listed:
            assert api.models.retrieve(model).id == model
            answer = api.chat.completions.create(
                model=model, messages=[{"role": "user", "content": "Hello"}], max_tokens=1
            )
            assert answer.usage is not None and answer.usage.completion_tokens == 1


def test_a_seeded_request_gives_the_same_text_alone_and_in_a_crowd(platform: Platform) -> None:
    api = client(platform, "acme")

    def sampled(seed: int) -> str:
        answer = api.chat.completions.create(
            model=BASE,
            messages=[{"role": "user", "content": "Tell me a story."}],
            max_tokens=16,
            temperature=0.9,
            seed=seed,
        )
        return answer.choices[0].message.content or ""

    alone = sampled(7)
    with ThreadPoolExecutor(8) as threads:
        crowd = list(threads.map(sampled, [7, 1, 2, 7, 3, 4, 5, 7]))
    assert crowd[0] == crowd[3] == crowd[7] == alone
    assert len(set(crowd)) > 1
