"""The ledger's rows one by one: in pages for people, in blocks for files."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from sqlalchemy import Select, func, literal, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.database.pages import Keyset, Page, PageRequest
from loraplex.platform.metering.errors import ExportTooLarge
from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.metering.usage import UsageFilter

MAX_EXPORTED_ROWS: Final = 1_000_000
NEWEST = Keyset("requests", LedgerEntry.created_at, LedgerEntry.request_id, descending=True)


class RowKey(NamedTuple):
    """Where a row stands in one tenant's ledger."""

    created_at: datetime
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerQuery:
    """Rows settled in a half-open period, which may be open at either end."""

    start: datetime | None
    end: datetime | None
    wanted: UsageFilter

    def rows(self) -> "Select[LedgerEntry]":
        statement = select(LedgerEntry).where(*self.wanted.conditions(LedgerEntry))
        if self.start is not None:
            statement = statement.where(LedgerEntry.created_at >= self.start)
        if self.end is not None:
            statement = statement.where(LedgerEntry.created_at < self.end)
        return statement


async def newest_requests(
    session: AsyncSession, query: LedgerQuery, wanted: PageRequest
) -> Page[LedgerEntry]:
    """A page of them; raises InvalidCursor."""
    return (await NEWEST.page(session, query.rows(), wanted)).map(lambda row: row[0])


async def requests_after(
    session: AsyncSession, query: LedgerQuery, after: RowKey | None, limit: int
) -> list[LedgerEntry]:
    """The next rows of one tenant, the oldest first."""
    place = tuple_(LedgerEntry.created_at, LedgerEntry.request_id)
    statement = query.rows().order_by(LedgerEntry.created_at, LedgerEntry.request_id).limit(limit)
    if after is not None:
        statement = statement.where(place > tuple_(*map(literal, after)))
    return list(await session.scalars(statement))


async def refuse_too_many(session: AsyncSession, query: LedgerQuery) -> None:
    """Raise ExportTooLarge rather than begin a file that could not have all rows."""
    some = query.rows().with_only_columns(literal(1)).limit(MAX_EXPORTED_ROWS + 1).subquery()
    count = await session.scalar(select(func.count()).select_from(some))
    if count is not None and count > MAX_EXPORTED_ROWS:
        raise ExportTooLarge(MAX_EXPORTED_ROWS)
