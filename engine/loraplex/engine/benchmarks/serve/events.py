"""Server-sent events as they come off the wire, in whatever pieces."""

import codecs
import re
from typing import Final

_LINE_ENDS: Final = re.compile("\r\n|\n|\r")
"""No others: JSON may hold U+2028 and its like, where str.splitlines would cut."""


class EventParser:
    """Joins pieces of a stream into events, by WHATWG HTML §9.2.6.

    Only the field `data` is kept. An event that no blank line ends is dropped, as the standard
    wants.
    """

    def __init__(self) -> None:
        # `utf-8-sig` drops a byte order mark at the very beginning.
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._line = ""
        self._data: list[str] = []
        self._ended_in_cr = False

    def feed(self, piece: bytes) -> list[str]:
        """The data of every event that this piece completes."""
        text = self._decoder.decode(piece)
        if self._ended_in_cr and text:
            text = text.removeprefix("\n")
            self._ended_in_cr = False
        if not text:
            return []
        self._ended_in_cr = text.endswith("\r")
        first, *others = _LINE_ENDS.split(text)
        lines = [self._line + first, *others]
        self._line = lines.pop()
        return [event for line in lines if (event := self._take(line)) is not None]

    def _take(self, line: str) -> str | None:
        if not line:
            data, self._data = self._data, []
            return "\n".join(data) if data else None
        field, _, value = line.partition(":")
        if field == "data":
            self._data.append(value.removeprefix(" "))
        return None
