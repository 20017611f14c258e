"""Finds stop strings in text that comes in pieces, and shows no part of one before its time."""

from collections.abc import Sequence


class StopStrings:
    """The text of one choice on its way out.

    Of several stop strings the one that is complete first ends the text; of those that are
    complete at the same character, the longest. So the text does not depend on how it was cut
    into pieces.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        self.strings = strings
        self._held = ""

    def push(self, text: str, *, may_stop: bool = True) -> tuple[str, bool]:
        """Add `text`; returns what may be shown now, and whether a stop string ended the text.

        Without `may_stop`, a stop string that is complete within `text` is shown like any other.
        """
        known_characters = len(self._held)
        text = self._held + text
        if may_stop and (match := self._first_match(text, known_characters)):
            _, start = match
            self._held = ""
            return text[:start], True
        shown_characters = self._start_of_possible_match(text)
        self._held = text[shown_characters:]
        return text[:shown_characters], False

    def flush(self) -> str:
        """What was held back, now that nothing follows."""
        held, self._held = self._held, ""
        return held

    def _first_match(self, text: str, known_characters: int) -> tuple[int, int] | None:
        """(end, start) of the first match that ends beyond the characters seen before."""
        matches = []
        for string in self.strings:
            start = text.find(string, max(0, known_characters - len(string) + 1))
            if start >= 0:
                matches.append((start + len(string), start))
        return min(matches, default=None)

    def _start_of_possible_match(self, text: str) -> int:
        """Where the longest end of `text` begins that may become a stop string."""
        first = len(text)
        for string in self.strings:
            start = text.find(string[0], max(0, len(text) - len(string) + 1))
            while 0 <= start < first:
                if string.startswith(text[start:]):
                    first = start
                start = text.find(string[0], start + 1)
        return first
