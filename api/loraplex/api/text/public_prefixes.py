"""How many of a prompt's tokens an operator has declared public."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property

import structlog

from loraplex.api.text.base_text import BaseText
from loraplex.api.text.errors import ConversationRefused
from loraplex.platform.public_prefixes.errors import InvalidPublicPrefix

FIRST_TURNS = ("A", "7")
"""Two first turns of a user with nothing in common."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Rendered:
    """Declared texts as token ids by name, on one day."""

    day: date
    texts: Mapping[str, str] = field(default_factory=dict)
    tokens: Mapping[str, list[int]] = field(default_factory=dict)

    @cached_property
    def in_order(self) -> list[list[int]]:
        return sorted(self.tokens.values())

    @cached_property
    def longest(self) -> int:
        return max(map(len, self.tokens.values()), default=0)


class PublicPrefixes:
    """The declared texts as the tokens that prompts begin with.

    What is declared is a system message's text. Its tokens are those which any conversation has
    that begins with this message: all that the template puts before the first user's own words.
    A base model without a chat template has the text itself. How much of that a prompt shares is
    seen in token ids, so a prompt that came as text or as ids counts like a conversation.
    """

    def __init__(self, text: BaseText, today: Callable[[], date] = date.today) -> None:
        self._text = text
        self._today = today
        self._rendered = _Rendered(today())

    @property
    def tokens(self) -> Mapping[str, list[int]]:
        """Token ids by name, of the texts that the chat template takes."""
        return self._rendered.tokens

    def declare(self, texts: Mapping[str, str]) -> None:
        """Have these texts be public and no others; what has changed is rendered, each in ms.

        One that the template refuses is logged and left out. For one thread at a time, while any
        other may ask for `public_tokens`.
        """
        before, day = self._rendered, self._today()
        tokens: dict[str, list[int]] = {}
        for name, text in texts.items():
            # Templates may write the date before the system message.
            if day == before.day and before.texts.get(name) == text:
                if name in before.tokens:
                    tokens[name] = before.tokens[name]
                continue
            try:
                tokens[name] = self.render(text)
            except InvalidPublicPrefix as error:
                log.warning("public_prefix_refused", name=name, reason=error.message)
            else:
                log.info("public_prefix", name=name, tokens=len(tokens[name]))
        self._rendered = _Rendered(day, dict(texts), tokens)

    @property
    def is_outdated(self) -> bool:
        """Whether the day is over for which the texts were rendered."""
        return self._today() != self._rendered.day

    def public_tokens(self, prompt: list[int]) -> int:
        """The most tokens that the prompt has in common with the start of a declared prefix.

        Among sorted prefixes the one that agrees the longest lies beside the prompt's own place,
        so this compares a handful of prefixes, and of the prompt no more than the longest has.
        """
        known = self._rendered
        head = prompt[: known.longest]
        place = bisect_left(known.in_order, head)
        neighbours = known.in_order[max(0, place - 1) : place + 1]
        return max((_common(head, one) for one in neighbours), default=0)

    def render(self, text: str) -> list[int]:
        """The tokens of a text; raises InvalidPublicPrefix where the template refuses it."""
        if not self._text.has_template:
            return self._text.encode_text_now(text)
        first, second = (self._conversation(text, turn) for turn in FIRST_TURNS)
        return first[: _common(first, second)]

    def _conversation(self, text: str, turn: str) -> list[int]:
        messages = [{"role": "system", "content": text}, {"role": "user", "content": turn}]
        try:
            return self._text.encode_rendered_now(self._text.render(messages))
        except ConversationRefused as error:
            raise InvalidPublicPrefix(
                f"is no system message: {error.message}",
                field="text",
                rule="what the chat template takes",
                value=text[:64],
            ) from error


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """The length of their common prefix."""
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return min(len(first), len(second))
