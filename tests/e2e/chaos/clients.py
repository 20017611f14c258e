"""Requests of all kinds, drawn from a seed, and what their clients saw of the answers."""

import json
import random
from dataclasses import dataclass, field
from typing import Any

import httpx

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
ANSWER_SECONDS = 60.0
WORDS = ["la", "le", "li", "lo", "lu", "one", "two", "three", "four", "five", "six", "seven"]


@dataclass(frozen=True)
class Planned:
    """`hang_up_after` is a number of events, or of none before the answer begins; None stays on.

    With a `key` the request is sent again once it was answered.
    """

    number: int
    gateway: int
    path: str
    body: dict[str, Any]
    hang_up_after: int | None
    key: str | None

    @property
    def is_stream(self) -> bool:
        return bool(self.body["stream"])

    @property
    def may_stop(self) -> bool:
        """Whether a stop string may end it before its worker learns of that."""
        return "stop" in self.body


def plan(model: str, number: int, randomness: random.Random) -> Planned:
    """Request `number`; the same again from the same seed."""
    path = randomness.choice([COMPLETIONS, COMPLETIONS, CHAT])
    text = " ".join(randomness.choices(WORDS, k=randomness.randint(1, 12)))
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": randomness.choice([1, 3, 8, 20, 40, 150]),
        "stream": randomness.random() < 0.7,
        "n": randomness.choice([1, 1, 1, 2, 3]),
    }
    if path == CHAT:
        body |= {"messages": [{"role": "user", "content": text}], "logprobs": True}
    else:
        prompts = [f"{text} {word}" for word in randomness.sample(WORDS, randomness.choice([1, 2]))]
        body |= {"prompt": prompts if len(prompts) > 1 else text, "logprobs": 0}
    if randomness.random() < 0.1:
        body["stop"] = [" " + randomness.choice(WORDS)]
    if body["stream"]:
        body["stream_options"] = {"include_usage": True}
    leaves = randomness.random() < 0.25
    return Planned(
        number=number,
        gateway=randomness.randrange(6),
        path=path,
        body=body,
        hang_up_after=randomness.randrange(30) if leaves else None,
        key=f"key-{number}" if not leaves and randomness.random() < 0.15 else None,
    )


@dataclass
class Seen:
    """What a client knows of its request. `tokens` are those that it was shown."""

    planned: Planned
    request_id: str | None = None
    status: int | None = None
    error: str | None = None
    usage: dict[str, Any] | None = None
    is_whole: bool = False
    tokens: int = 0
    content: bytes = b""
    again: list[tuple[int, bytes]] = field(default_factory=list)

    def take(self, event: dict[str, Any]) -> None:
        """A body or an event of a stream."""
        if "error" in event:
            self.error = event["error"]["code"]
            return
        self.request_id = event["id"].partition("-")[2]
        self.usage = event.get("usage") or self.usage
        for choice in event["choices"]:
            shown = choice.get("logprobs") or {}
            self.tokens += len(shown.get("tokens") or shown.get("content") or [])


class Client:
    """Sends planned requests; a gateway that dies meanwhile is what `error` tells of."""

    def __init__(self, key: str) -> None:
        self._headers = {"Authorization": f"Bearer {key}", "Connection": "close"}
        self._http = httpx.AsyncClient(verify=False, timeout=ANSWER_SECONDS, trust_env=False)

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, url: str, planned: Planned) -> Seen:
        seen = Seen(planned)
        try:
            await self._send(url, planned, seen)
            if planned.key is not None and seen.is_whole:
                answer = await self._http.send(self._request(url, planned))
                seen.again.append((answer.status_code, answer.content))
        except httpx.HTTPError as error:
            seen.error = type(error).__name__
        return seen

    def _request(self, url: str, planned: Planned) -> httpx.Request:
        headers = self._headers | ({"Idempotency-Key": planned.key} if planned.key else {})
        return self._http.build_request(
            "POST", url + planned.path, json=planned.body, headers=headers
        )

    async def _send(self, url: str, planned: Planned, seen: Seen) -> None:
        answer = await self._http.send(self._request(url, planned), stream=True)
        try:
            seen.status = answer.status_code
            if planned.is_stream and answer.status_code == 200:
                await self._read_events(answer, planned, seen)
                return
            seen.content = await answer.aread()
            seen.take(json.loads(seen.content))
            seen.is_whole = answer.status_code == 200
        finally:
            await answer.aclose()

    async def _read_events(self, answer: httpx.Response, planned: Planned, seen: Seen) -> None:
        events = 0
        async for line in answer.aiter_lines():
            seen.content += line.encode() + b"\n"
            data = line.removeprefix("data: ")
            if data == "[DONE]":
                seen.is_whole = True
            elif data:
                seen.take(json.loads(data))
                events += 1
                if planned.hang_up_after is not None and events > planned.hang_up_after:
                    return
