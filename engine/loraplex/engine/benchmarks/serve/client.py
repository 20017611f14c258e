"""One streamed completion over HTTP, and when each part of its answer came."""

import time
from http import HTTPStatus
from typing import Any, Final

import httpx
import msgspec

from loraplex.engine.benchmarks.serve.events import EventParser
from loraplex.engine.benchmarks.serve.outcome import Outcome
from loraplex.engine.benchmarks.serve.targets import Target

DONE: Final = "[DONE]"
COMPLETIONS: Final = "v1/completions"


class _AnswerFailed(Exception):
    """The answer is an error, or no answer at all; the argument is its kind."""


def http_client(url: str, timeout_seconds: float) -> httpx.AsyncClient:
    """A client with a connection for every request at once.

    `url` may end in `/v1`, as OpenAI's clients want it. `timeout_seconds` bounds each silence.
    """
    return httpx.AsyncClient(
        base_url=url.rstrip("/").removesuffix("/v1"),
        timeout=httpx.Timeout(timeout_seconds, pool=None),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
    )


async def complete(
    client: httpx.AsyncClient, target: Target, body: bytes, intended_at: float
) -> Outcome:
    """Send a body and follow its answer to the end. Failures are outcomes too, never raised.

    Kinds: `http_<status>`, `error_<code>` for an error inside a stream, `cut_short` for a stream
    without its end, `no_output`, `timeout`, `connection`, `malformed`.
    """
    outcome = Outcome(target.model, intended_at, sent_at=time.perf_counter())
    try:
        await _follow(client, target, body, outcome)
    except _AnswerFailed as failed:
        outcome.error = str(failed)
    except httpx.TimeoutException:
        outcome.error = "timeout"
    except httpx.HTTPError:
        outcome.error = "connection"
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError):
        outcome.error = "malformed"
    outcome.ended_at = time.perf_counter()
    return outcome


async def _follow(client: httpx.AsyncClient, target: Target, body: bytes, outcome: Outcome) -> None:
    # Compressed, events would come when the compressor's buffer is full.
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    if target.api_key:
        headers["Authorization"] = f"Bearer {target.api_key}"
    async with client.stream("POST", COMPLETIONS, content=body, headers=headers) as answer:
        if answer.status_code != HTTPStatus.OK:
            raise _AnswerFailed(f"http_{answer.status_code}")
        parser = EventParser()
        is_done = False
        async for piece in answer.aiter_raw():
            now = time.perf_counter()
            for data in parser.feed(piece):
                if data == DONE:
                    is_done = True
                else:
                    _take(msgspec.json.decode(data), now, outcome)
    if not is_done:
        raise _AnswerFailed("cut_short")
    if not outcome.token_times:
        raise _AnswerFailed("no_output")
    # A server that tells no usage is counted by its events.
    outcome.output_tokens = outcome.output_tokens or len(outcome.token_times)


def _take(event: dict[str, Any], now: float, outcome: Outcome) -> None:
    if "error" in event:
        error = event["error"]
        raise _AnswerFailed(f"error_{error.get('code') or error.get('type') or 'unknown'}")
    if event.get("choices"):
        outcome.token_times.append(now)
    if usage := event.get("usage"):
        outcome.output_tokens = usage["completion_tokens"]
        outcome.prompt_tokens = usage["prompt_tokens"]
        details = usage.get("prompt_tokens_details") or {}
        outcome.cached_tokens = details.get("cached_tokens") or 0
