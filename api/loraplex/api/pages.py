"""Lists in pages: an opaque cursor names the last item shown, so insertions shift nothing."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import Query

from loraplex.api.refusals import InvalidValue

T = TypeVar("T")

LimitQuery = Annotated[int, Query(ge=1, le=200, description="How many items at most.")]
CursorQuery = Annotated[
    str | None, Query(max_length=512, description="`next_cursor` of the page before.")
]


def page_of(
    items: Sequence[T], key: Callable[[T], str], limit: int, cursor: str | None
) -> tuple[list[T], str | None]:
    """Up to `limit` items after the cursor's, in the order of `items`, and the next cursor.

    `key` is unique. Raises InvalidValue for a cursor that no page of this list gave.
    """
    start = 0
    if cursor is not None:
        keys = [key(item) for item in items]
        last = _decoded(cursor)
        if last not in keys:
            raise InvalidValue(
                "`cursor` should be the `next_cursor` of a page of this list.",
                field="cursor",
                rule="a next_cursor",
            )
        start = keys.index(last) + 1
    shown = list(items[start : start + limit])
    has_more = start + limit < len(items)
    return shown, _encoded(key(shown[-1])) if has_more else None


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decoded(cursor: str) -> str | None:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        return None
