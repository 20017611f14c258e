"""Prompts as token ids: of conversations, of texts, of token ids as they came."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from loraplex.api.openai.limits import check_prompt
from loraplex.api.openai.parameters import check_token_ids
from loraplex.api.openai.schemas import ChatBody, CompletionBody, Message
from loraplex.api.refusals import InvalidValue
from loraplex.api.text.base_text import BaseText


@dataclass(frozen=True)
class Prompt:
    """`field` is where the client wrote it; `echo` is what goes before the answer."""

    token_ids: list[int]
    field: str
    echo: str = ""


@dataclass(frozen=True)
class PromptReader:
    """Makes prompts that fit. Each is checked before the next is read.

    A text that cannot fit whatever its tokens are is refused before it is tokenized: some
    megabytes would take a minute.
    """

    text: BaseText
    vocabulary_size: int
    context_tokens: int

    async def chat(self, body: ChatBody) -> list[Prompt]:
        """The conversation's one prompt.

        Raises ConversationRefused, NoChatTemplate and PromptTooLong.
        """
        rendered = self.text.render([_as_template_sees(message) for message in body.messages])
        self._check_text(rendered, "messages")
        ids = await self.text.encode_rendered(rendered)
        return [self._checked(Prompt(ids, "messages"))]

    async def completions(self, body: CompletionBody) -> list[Prompt]:
        """Each prompt of the body; raises PromptTooLong and, for strange tokens, InvalidValue."""
        given = body.prompt
        if isinstance(given, str):
            return [await self._of_text(given, "prompt", body.echo)]
        if isinstance(given[0], int):
            return [await self._of_tokens(given, "prompt", body.echo)]
        return [
            await self._of_text(item, f"prompt[{place}]", body.echo)
            if isinstance(item, str)
            else await self._of_tokens(item, f"prompt[{place}]", body.echo)
            for place, item in enumerate(cast(Sequence[str | list[int]], given))
        ]

    async def _of_text(self, given: str, field: str, echo: bool) -> Prompt:
        self._check_text(given, field)
        ids = await self.text.encode_text(given)
        return self._checked(Prompt(ids, field, given if echo else ""))

    async def _of_tokens(self, given: list[int], field: str, echo: bool) -> Prompt:
        check_prompt(len(given), self.context_tokens, field)
        check_token_ids(given, self.vocabulary_size, field)
        return Prompt(given, field, await self.text.decode(given) if echo else "")

    def _check_text(self, text: str, field: str) -> None:
        check_prompt(self.text.least_tokens(text), self.context_tokens, field, at_least=True)

    def _checked(self, prompt: Prompt) -> Prompt:
        if not prompt.token_ids:
            raise InvalidValue(
                f"`{prompt.field}` should have at least one token.",
                field=prompt.field,
                rule="at least one token",
            )
        check_prompt(len(prompt.token_ids), self.context_tokens, prompt.field)
        return prompt


def _as_template_sees(message: Message) -> dict[str, str]:
    seen = {"role": message.role, "content": message.text}
    return seen if message.name is None else seen | {"name": message.name}
