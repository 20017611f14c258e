"""How a call becomes an answer, streamed or whole; chat and completions differ in shapes alone."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Protocol

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from loraplex.api.errors import INTERNAL, openai_body
from loraplex.api.limit_headers import limit_headers
from loraplex.api.openai.answer_schemas import Usage
from loraplex.api.openai.answers import Gathered, usage_of
from loraplex.api.openai.call import Call, ChoicePiece
from loraplex.api.openai.outcomes import CANCELLED, COMPLETED, FAILED
from loraplex.api.openai.schemas import GenerationBody
from loraplex.api.openai.streams import DONE, ClientGone, EventStream, frame, unless_gone
from loraplex.engine.protocol.errors import DomainError, EngineFailure

log = structlog.get_logger(__name__)

SETTLE_WAIT_SECONDS = 1.0
"""The last byte waits so long for the settlement: a client that sees its answer end finds its place
free for the next one, and a database that is away delays no answer much."""
CLIENT_CLOSED_REQUEST = 499

Event = dict[str, object]


class Shape(Protocol):
    """The bodies of one route."""

    def chunks(self, piece: ChoicePiece) -> Iterator[Event]:
        """The events that tell of a piece, if any."""

    def usage_chunk(self, usage: Usage) -> Event:
        """The last event, when the client asked for it."""

    def whole(self, choices: Sequence[Gathered], usage: Usage) -> Event:
        """The answer in one body."""


async def serve(
    request: Request,
    call: Call,
    shape: Shape,
    body: GenerationBody,
    headers: Mapping[str, str],
) -> Response:
    """Run the call and answer. Before the first output a failure still has a status of its own."""
    gathered = [Gathered() for _ in call.choices]
    try:
        await unless_gone(request, asyncio.create_task(call.begin()))
        headers = {**headers, **limit_headers(call.windows)}
        if body.stream:
            frames = _frames(call, shape, body.wants_usage)
            return EventStream(frames, headers, on_close=lambda: call.end(CANCELLED))
        await unless_gone(request, asyncio.create_task(_gather(call, gathered)))
    except ClientGone:
        call.end(CANCELLED)
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    except asyncio.CancelledError:
        call.end(CANCELLED)
        raise
    except Exception as error:
        call.end(FAILED, error)
        raise
    await _settled(call.end(COMPLETED))
    return JSONResponse(shape.whole(gathered, usage_of(call.usage())), headers=headers)


async def _gather(call: Call, gathered: Sequence[Gathered]) -> None:
    async with aclosing(call.pieces()) as pieces:
        async for piece in pieces:
            gathered[piece.index].add(piece.piece)


async def _frames(call: Call, shape: Shape, wants_usage: bool) -> AsyncGenerator[bytes, None]:
    """The stream's events to `[DONE]`, or to the error that ends it."""
    failure: Exception | None = None
    outcome = CANCELLED  # unless it gets further: who closes this early has lost the client
    try:
        async with aclosing(call.pieces()) as pieces:
            async for piece in pieces:
                for event in shape.chunks(piece):
                    yield frame(event)
        outcome = COMPLETED
        if wants_usage:
            yield frame(shape.usage_chunk(usage_of(call.usage())))
        await _settled(call.end(COMPLETED))
        yield DONE
    except DomainError as error:
        outcome, failure = FAILED, error
        yield frame(openai_body(error))
    except Exception as error:
        outcome, failure = FAILED, error
        log.error("stream_failed", request_id=call.request_id, exc_info=error)
        yield frame(openai_body(EngineFailure(INTERNAL)))
    finally:
        call.end(outcome, failure)


async def _settled(settlement: "asyncio.Task[None]") -> None:
    await asyncio.wait({settlement}, timeout=SETTLE_WAIT_SECONDS)
