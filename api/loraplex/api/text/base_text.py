"""A base model's text: conversations and prompts to token ids, token ids to text."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from tokenizers import Tokenizer

from loraplex.api.text.chat_template import ChatTemplate
from loraplex.api.text.errors import NoChatTemplate
from loraplex.api.text.token_bytes import TokenBytes

INLINE_CHARACTERS = 4096
"""Shorter texts are tokenized within a millisecond or two; longer ones leave the event loop."""

P = ParamSpec("P")
T = TypeVar("T")


class BaseText:
    """Tokenizer and chat template of one base model; stateless, safe for threads."""

    def __init__(
        self, tokenizer: Tokenizer, tokens: TokenBytes, template: ChatTemplate | None
    ) -> None:
        self.tokens = tokens
        self._tokenizer = tokenizer
        self._template = template

    @classmethod
    def load(cls, model_dir: Path) -> "BaseText":
        """Read a Hugging Face directory; raises UnsupportedModel for an unknown decoder."""
        file = model_dir / "tokenizer.json"
        tokenizer = Tokenizer.from_file(str(file))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return cls(tokenizer, TokenBytes.load(tokenizer, file), ChatTemplate.load(model_dir))

    @property
    def has_template(self) -> bool:
        return self._template is not None

    def render(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """The prompt of a conversation; raises NoChatTemplate and ConversationRefused."""
        if self._template is None:
            raise NoChatTemplate(
                "This base model has no chat template. Use /v1/completions.",
                field="model",
                rule="a model with a chat template",
            )
        return self._template.render(messages)

    async def encode_rendered(self, text: str) -> list[int]:
        """The tokens of a rendered conversation, which holds its special tokens itself."""
        return await _run(len(text), self.encode_rendered_now, text)

    async def encode_text(self, text: str) -> list[int]:
        """A text to be completed, with the special tokens the tokenizer puts around one."""
        return await _run(len(text), self.encode_text_now, text)

    async def decode(self, token_ids: Sequence[int]) -> str:
        """The text of a prompt that was given as tokens."""
        return await _run(len(token_ids), self._tokenizer.decode, list(token_ids))

    def least_tokens(self, text: str) -> int:
        """A number of tokens that `text` has at least; takes no time even for megabytes."""
        return -(-len(text.encode()) // self.tokens.longest_bytes)

    def encode_rendered_now(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def encode_text_now(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text).ids
        return ids


async def _run(characters: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    if characters <= INLINE_CHARACTERS:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)
