"""How many of a prompt's tokens an operator has declared public."""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from datetime import date

from loraplex.api.text.base_text import BaseText
from loraplex.api.text.errors import ConversationRefused
from loraplex.platform.public_prefixes import InvalidPublicPrefix

FIRST_TURNS = ("A", "7")
"""Two first turns of a user with nothing in common."""
RENEW_SECONDS = 60.0


class PublicPrefixes:
    """The declared texts as the tokens that prompts begin with.

    What is declared is a system message's text. Its tokens are those which any conversation has
    that begins with this message: all that the template puts before the first user's own words.
    A base model without a chat template has the text itself. How much of that a prompt shares is
    seen in token ids, so a prompt that came as text or as ids counts like a conversation.
    """

    def __init__(
        self,
        declared: Mapping[str, str],
        text: BaseText,
        today: Callable[[], date] = date.today,
    ) -> None:
        """Raises InvalidPublicPrefix where the chat template refuses a system message."""
        self._declared = declared
        self._text = text
        self._today = today
        self.renew()

    def renew(self) -> None:
        """Render the declared texts anew; takes a millisecond or more for each."""
        self._rendered_on = self._today()
        self.tokens = {name: self._render(name, text) for name, text in self._declared.items()}
        """Token ids by the declaring file's name."""
        self._sorted = sorted(self.tokens.values())
        self._longest = max(map(len, self._sorted), default=0)

    async def keep_current(self) -> None:
        """Renew them every day, for templates that write the date before the system message."""
        while self._declared:
            await asyncio.sleep(RENEW_SECONDS)
            if self.is_outdated:
                await asyncio.to_thread(self.renew)

    @property
    def is_outdated(self) -> bool:
        return self._today() != self._rendered_on

    def public_tokens(self, prompt: list[int]) -> int:
        """The most tokens that the prompt has in common with the start of a declared prefix.

        Among sorted prefixes the one that agrees the longest lies beside the prompt's own place,
        so this compares a handful of prefixes, and of the prompt no more than the longest has.
        """
        head = prompt[: self._longest]
        place = bisect_left(self._sorted, head)
        neighbours = self._sorted[max(0, place - 1) : place + 1]
        return max((_common(head, one) for one in neighbours), default=0)

    def _render(self, name: str, text: str) -> list[int]:
        if not self._text.has_template:
            return self._text.encode_text_now(text)
        first, second = (self._conversation(name, text, turn) for turn in FIRST_TURNS)
        return first[: _common(first, second)]

    def _conversation(self, name: str, text: str, turn: str) -> list[int]:
        messages = [{"role": "system", "content": text}, {"role": "user", "content": turn}]
        try:
            return self._text.encode_rendered_now(self._text.render(messages))
        except ConversationRefused as error:
            raise InvalidPublicPrefix(
                name, f"is no system message: {error.message}", "what the chat template takes"
            ) from error


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """The length of their common prefix."""
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return min(len(first), len(second))
