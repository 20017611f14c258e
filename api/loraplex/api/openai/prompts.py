"""Prompts as token ids: of conversations, of texts, of token ids as they came."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from loraplex.api.openai.parameters import check_token_ids
from loraplex.api.openai.schemas import ChatBody, CompletionBody, Message
from loraplex.api.refusals import InvalidValue
from loraplex.api.text.base_text import BaseText
from loraplex.engine.protocol.module_table import ModuleTable


@dataclass(frozen=True)
class Prompt:
    """`field` is where the client wrote it; `echo` is what goes before the answer."""

    token_ids: list[int]
    field: str
    echo: str = ""


async def chat_prompts(body: ChatBody, text: BaseText) -> list[Prompt]:
    """The conversation's one prompt; raises ConversationRefused and NoChatTemplate."""
    ids = await text.encode_chat([_as_template_sees(message) for message in body.messages])
    return [Prompt(ids, "messages")]


async def completion_prompts(
    body: CompletionBody, text: BaseText, table: ModuleTable
) -> list[Prompt]:
    """Each prompt of the body; raises InvalidValue for a token that no vocabulary has."""
    given = body.prompt
    if isinstance(given, str):
        return [await _text_prompt(given, "prompt", body.echo, text)]
    if given and isinstance(given[0], int):
        return [await _token_prompt(given, "prompt", body.echo, text, table)]
    prompts = []
    for place, item in enumerate(cast(Sequence[str | list[int]], given)):
        field = f"prompt[{place}]"
        if isinstance(item, str):
            prompts.append(await _text_prompt(item, field, body.echo, text))
        else:
            prompts.append(await _token_prompt(item, field, body.echo, text, table))
    return prompts


async def _text_prompt(given: str, field: str, echo: bool, text: BaseText) -> Prompt:
    ids = await text.encode_text(given)
    if not ids:
        raise InvalidValue(
            f"`{field}` should have at least one token.", field=field, rule="at least one token"
        )
    return Prompt(ids, field, given if echo else "")


async def _token_prompt(
    given: list[int], field: str, echo: bool, text: BaseText, table: ModuleTable
) -> Prompt:
    check_token_ids(given, table, field)
    return Prompt(given, field, await text.decode(given) if echo else "")


def _as_template_sees(message: Message) -> dict[str, str]:
    seen = {"role": message.role, "content": message.text}
    return seen if message.name is None else seen | {"name": message.name}
