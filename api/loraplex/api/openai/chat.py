"""POST /v1/chat/completions."""

import time
from collections.abc import Iterator, Sequence

from fastapi import APIRouter, Request
from starlette.responses import Response

from loraplex.api.arrival import arrival_of
from loraplex.api.authentication import ModelCallerDep
from loraplex.api.documentation import OPENAI_ERROR, json_body, streamed
from loraplex.api.openai.answer_schemas import ChatChunk, ChatCompletion, Usage
from loraplex.api.openai.answers import Gathered, chat_logprobs, fingerprint
from loraplex.api.openai.call import ChoicePiece
from loraplex.api.openai.calls import Wish, prepare, prompt_reader, resolve
from loraplex.api.openai.parameters import (
    CHAT_UNSERVED,
    chat_logprobs_wanted,
    chat_max_tokens,
    check_common,
)
from loraplex.api.openai.schemas import ChatBody
from loraplex.api.openai.serving import Event, serve
from loraplex.api.served import version_header
from loraplex.api.services import ServicesDep
from loraplex.api.text.choice_text import ShownToken
from loraplex.api.text.token_bytes import TokenBytes
from loraplex.api.validation import read_json, validate

router = APIRouter(prefix="/v1", tags=["openai"], responses=OPENAI_ERROR)


@router.post(
    "/chat/completions",
    operation_id="createChatCompletion",
    response_model=ChatCompletion,
    responses=streamed(ChatChunk),
    openapi_extra=json_body(ChatBody),
)
async def create_chat_completion(
    request: Request, services: ServicesDep, principal: ModelCallerDep
) -> Response:
    """The assistant's next turn, whole or as a stream of events."""
    body = validate(ChatBody, await read_json(request, is_stored=False), CHAT_UNSERVED)
    check_common(body)
    max_tokens, max_tokens_field = chat_max_tokens(body)
    logprobs = chat_logprobs_wanted(body)
    arrival = arrival_of(request)
    resolved = await resolve(request, services, principal, body, arrival.request_id)
    wish = Wish(
        prompts=await prompt_reader(services, resolved).chat(body),
        max_tokens=max_tokens,
        max_tokens_field=max_tokens_field,
        logprobs=logprobs,
        continues=False,
    )
    call = prepare(services, principal, body, resolved, arrival, wish)
    system_fingerprint = fingerprint(resolved.base_digest)
    shape = ChatShape(arrival.request_id, body, system_fingerprint, services.text.tokens)
    return await serve(request, call, shape, body, version_header(request))


class ChatShape:
    """Chat's bodies. A choice's events: its role, its text, its finish reason."""

    def __init__(
        self, request_id: str, body: ChatBody, system_fingerprint: str, tokens: TokenBytes
    ) -> None:
        self._head = {
            "id": f"chatcmpl-{request_id}",
            "created": int(time.time()),
            "model": body.model,
            "system_fingerprint": system_fingerprint,
        }
        self._wants_logprobs = body.logprobs
        self._usage: Event = {"usage": None} if body.wants_usage else {}
        self._tokens = tokens
        self._begun: set[int] = set()
        self._pending: dict[int, list[ShownToken]] = {}

    def chunks(self, piece: ChoicePiece) -> Iterator[Event]:
        index, added = piece.index, piece.piece
        self._pending.setdefault(index, []).extend(added.tokens)
        if index not in self._begun:
            self._begun.add(index)
            yield self._chunk(index, {"role": "assistant", "content": ""})
        if added.text:
            yield self._chunk(index, {"content": added.text}, with_logprobs=True)
        if added.finish_reason is not None:
            reason = added.finish_reason.value
            yield self._chunk(index, {}, finish_reason=reason, with_logprobs=True)

    def usage_chunk(self, usage: Usage) -> Event:
        return self._body("chat.completion.chunk", [], {"usage": usage.model_dump()})

    def whole(self, choices: Sequence[Gathered], usage: Usage) -> Event:
        shown: list[Event] = [
            {
                "index": index,
                "message": {"role": "assistant", "content": choice.text, "refusal": None},
                "logprobs": self._logprobs(choice.tokens),
                "finish_reason": choice.finish_reason,
            }
            for index, choice in enumerate(choices)
        ]
        return self._body("chat.completion", shown, {"usage": usage.model_dump()})

    def _chunk(
        self,
        index: int,
        delta: Event,
        *,
        finish_reason: str | None = None,
        with_logprobs: bool = False,
    ) -> Event:
        # Tokens whose text is still held back wait for the chunk that shows it.
        tokens = self._pending.pop(index, []) if with_logprobs else []
        choice: Event = {
            "index": index,
            "delta": delta,
            "logprobs": self._logprobs(tokens) if tokens else None,
            "finish_reason": finish_reason,
        }
        return self._body("chat.completion.chunk", [choice], self._usage)

    def _logprobs(self, tokens: Sequence[ShownToken]) -> Event | None:
        if not self._wants_logprobs:
            return None
        return chat_logprobs(tokens, self._tokens).model_dump()

    def _body(self, kind: str, choices: Sequence[Event], rest: Event) -> Event:
        return {**self._head, "object": kind, "choices": choices, **rest}
