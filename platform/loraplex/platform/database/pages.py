"""Lists in pages, cut by the database: a cursor holds the last row's keys, so nothing shifts.

Rows that come or go between two pages neither repeat others nor hide them. A cursor is no secret
and proves nothing: whose rows are seen is the statement's business, and row security's.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar, TypeVarTuple
from uuid import UUID

from sqlalchemy import BigInteger, ColumnElement, Select, bindparam, tuple_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import QueryableAttribute

from loraplex.engine.protocol.errors import FixedRefusal, Kind

T = TypeVar("T")
U = TypeVar("U")
Columns = TypeVarTuple("Columns")

DEFAULT_LIMIT = 100
MAX_LIMIT = 200
MAX_CURSOR_CHARACTERS = 512


class InvalidCursor(FixedRefusal):
    """A cursor that no page of this list gave."""

    kind, code = Kind.INVALID, "invalid_cursor"
    field, rule = "cursor", "a next_cursor of this list"
    message = "`cursor` should be the `next_cursor` of a page of this list."


@dataclass(frozen=True, slots=True)
class PageRequest:
    """So many items at most, after those of the page that gave the cursor."""

    limit: int = DEFAULT_LIMIT
    cursor: str | None = None


FIRST_PAGE = PageRequest()


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: list[T]
    next_cursor: str | None
    """None on the last page."""

    def map(self, function: Callable[[T], U]) -> "Page[U]":
        return Page([function(item) for item in self.items], self.next_cursor)


class Keyset:
    """The order of one list: columns that are never null and together unique within it.

    `name` keeps the cursors of different lists apart.
    """

    def __init__(
        self, name: str, *keys: "QueryableAttribute[Any]", descending: bool = False
    ) -> None:
        self._name = name
        self._keys = keys
        self._descending = descending

    async def page(
        self, session: AsyncSession, statement: Select[*Columns], wanted: PageRequest
    ) -> Page[tuple[*Columns]]:
        """The rows of `statement`, which has no order of its own. Raises InvalidCursor."""
        if wanted.cursor is not None:
            statement = statement.where(self._after(wanted.cursor))
        labelled = [key.label(f"keyset_{i}") for i, key in enumerate(self._keys)]
        ordered = (
            statement.add_columns(*labelled)
            .order_by(*((key.desc() if self._descending else key.asc()) for key in self._keys))
            .limit(wanted.limit + 1)  # one more tells whether there is a next page
        )
        rows = [tuple(row) for row in await session.execute(ordered)]
        shown = rows[: wanted.limit]
        width = len(self._keys)
        next_cursor = self._cursor(shown[-1][-width:]) if len(rows) > wanted.limit else None
        return Page([row[:-width] for row in shown], next_cursor)

    def _after(self, cursor: str) -> ColumnElement[bool]:
        values = self._values(cursor)
        last = tuple_(
            *(
                bindparam(None, value, type_=key.type)
                for key, value in zip(self._keys, values, strict=True)
            )
        )
        # One comparison of rows, which an index over the keys answers.
        return tuple_(*self._keys) < last if self._descending else tuple_(*self._keys) > last

    def _cursor(self, values: tuple[Any, ...]) -> str:
        told = [self._name, *(value if type(value) is int else _text(value) for value in values)]
        compact = json.dumps(told, separators=(",", ":"), ensure_ascii=False)
        return base64.urlsafe_b64encode(compact.encode()).decode().rstrip("=")

    def _values(self, cursor: str) -> list[Any]:
        try:
            padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
            told = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
            if not isinstance(told, list) or told[:1] != [self._name]:
                raise InvalidCursor
            return [_value(key, item) for key, item in zip(self._keys, told[1:], strict=True)]
        except (ValueError, RecursionError):
            raise InvalidCursor from None


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _value(key: "QueryableAttribute[Any]", told: Any) -> Any:
    """What the column holds, from what the cursor says; ValueError when it can hold no such."""
    kind = key.type.python_type
    if kind is int:
        bits = 63 if isinstance(key.type, BigInteger) else 31
        if type(told) is not int or not -(2**bits) <= told < 2**bits:
            raise ValueError("no number of the column")
        return told
    if not isinstance(told, str) or "\0" in told:
        raise ValueError("no text of the column")
    told.encode()  # a lone surrogate is a ValueError here, not an error of the database
    if kind is UUID:
        return UUID(told)
    if kind is datetime:
        moment = datetime.fromisoformat(told)
        if moment.tzinfo is None or moment.year < 2:
            raise ValueError("no time of the column")
        return moment
    return told
