"""POST /v1/completions."""

import time
from collections.abc import Iterator, Sequence

from fastapi import APIRouter, Request
from starlette.responses import Response

from loraplex.api.arrival import arrival_of
from loraplex.api.authentication import ModelCallerDep
from loraplex.api.documentation import OPENAI_ERROR, json_body, streamed
from loraplex.api.openai.answer_schemas import Completion, Usage
from loraplex.api.openai.answers import Gathered, completion_logprobs, fingerprint
from loraplex.api.openai.call import ChoicePiece
from loraplex.api.openai.calls import Wish, prepare, prompt_reader, resolve
from loraplex.api.openai.parameters import COMPLETION_UNSERVED, check_common, check_completion
from loraplex.api.openai.prompts import Prompt
from loraplex.api.openai.schemas import CompletionBody
from loraplex.api.openai.serving import Event, serve
from loraplex.api.served import version_header
from loraplex.api.services import ServicesDep
from loraplex.api.text.choice_text import ShownToken
from loraplex.api.text.token_bytes import TokenBytes
from loraplex.api.validation import read_json, validate

router = APIRouter(prefix="/v1", tags=["openai"], responses=OPENAI_ERROR)


@router.post(
    "/completions",
    operation_id="createCompletion",
    response_model=Completion,
    responses=streamed(Completion),
    openapi_extra=json_body(CompletionBody),
)
async def create_completion(
    request: Request, services: ServicesDep, principal: ModelCallerDep
) -> Response:
    """Texts that go on from the prompts, whole or as a stream of events."""
    body = validate(CompletionBody, await read_json(request, is_stored=False), COMPLETION_UNSERVED)
    check_common(body)
    check_completion(body)
    arrival = arrival_of(request)
    resolved = await resolve(request, services, principal, body, arrival.request_id)
    prompts = await prompt_reader(services, resolved).completions(body)
    wish = Wish(
        prompts=prompts,
        max_tokens=body.max_tokens,
        max_tokens_field="max_tokens",
        logprobs=body.logprobs,
        continues=True,
    )
    call = prepare(services, principal, body, resolved, arrival, wish)
    shape = CompletionShape(
        arrival.request_id, body, prompts, fingerprint(resolved.base_digest), services.text.tokens
    )
    return await serve(request, call, shape, body, version_header(request))


class CompletionShape:
    """Completions' bodies. With `echo`, a choice's text begins with its prompt."""

    def __init__(
        self,
        request_id: str,
        body: CompletionBody,
        prompts: Sequence[Prompt],
        system_fingerprint: str,
        tokens: TokenBytes,
    ) -> None:
        self._head = {
            "id": f"cmpl-{request_id}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": body.model,
            "system_fingerprint": system_fingerprint,
        }
        self._wants_logprobs = body.logprobs is not None
        self._usage: Event = {"usage": None} if body.wants_usage else {}
        self._tokens = tokens
        self._echoes = [prompt.echo for prompt in prompts for _ in range(body.n)]
        self._begun: set[int] = set()
        self._pending: dict[int, list[ShownToken]] = {}

    def chunks(self, piece: ChoicePiece) -> Iterator[Event]:
        index, added = piece.index, piece.piece
        pending = self._pending.setdefault(index, [])
        pending.extend(added.tokens)
        text = added.text
        if index not in self._begun:
            self._begun.add(index)
            text = self._echoes[index] + text
        if not text and added.finish_reason is None:
            return
        reason = added.finish_reason.value if added.finish_reason else None
        choice = self._choice(index, text, self._pending.pop(index), reason)
        yield {**self._head, "choices": [choice], **self._usage}

    def usage_chunk(self, usage: Usage) -> Event:
        return {**self._head, "choices": [], "usage": usage.model_dump()}

    def whole(self, choices: Sequence[Gathered], usage: Usage) -> Event:
        shown = [
            self._choice(index, self._echoes[index] + one.text, one.tokens, one.finish_reason)
            for index, one in enumerate(choices)
        ]
        return {**self._head, "choices": shown, "usage": usage.model_dump()}

    def _choice(
        self, index: int, text: str, tokens: Sequence[ShownToken], finish_reason: str | None
    ) -> Event:
        logprobs = None
        if self._wants_logprobs:
            offset = len(self._echoes[index])
            logprobs = completion_logprobs(tokens, self._tokens, offset).model_dump()
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish_reason}
