import asyncio
import base64
import json
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, insert, select

from loraplex.platform.admission.models import Limits
from loraplex.platform.database.outbox import OutboxMessage
from loraplex.platform.database.pages import InvalidCursor, Keyset, Page, PageRequest
from loraplex.platform.database.sessions import Database
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.models import Tenant

NAMES = Keyset("names", Tenant.name)
NEWEST = Keyset("newest", Tenant.created_at, Tenant.id, descending=True)
OLDEST = Keyset("oldest", Tenant.created_at, Tenant.id)
MESSAGES = Keyset("messages", OutboxMessage.id)
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


class List:
    """Some tenants, and pages of exactly these."""

    def __init__(self, database: Database, mark: str) -> None:
        self.database = database
        self.mark = mark

    async def add(self, *ages: int) -> None:
        """A tenant for each age, in hours; equal ages share one moment."""
        rows = [
            {
                "id": uuid4(),
                "name": f"{self.mark}-{uuid4().hex}",
                "namespace": uuid4().hex,
                "created_at": MOMENT - timedelta(hours=age),
            }
            for age in ages
        ]
        if rows:
            async with self.database.unit_of_work() as session:
                await session.execute(insert(Tenant), rows)

    async def clear(self) -> None:
        async with self.database.unit_of_work() as session:
            mine = Tenant.name.startswith(self.mark)
            ids = select(Tenant.id).where(mine)
            await session.execute(delete(Limits).where(Limits.tenant_id.in_(ids)))
            await session.execute(delete(Tenant).where(mine))

    async def page(self, keyset: Keyset, limit: int, cursor: str | None) -> Page[tuple[UUID]]:
        mine = select(Tenant.id).where(Tenant.name.startswith(self.mark))
        async with self.database.unit_of_work() as session:
            return await keyset.page(session, mine, PageRequest(limit, cursor))

    async def everything(self, keyset: Keyset, limit: int) -> list[UUID]:
        """All pages put together."""
        seen: list[UUID] = []
        cursor = None
        while True:
            page = await self.page(keyset, limit, cursor)
            assert len(page.items) <= limit
            assert page.items or cursor is None
            seen += [id_ for (id_,) in page.items]
            cursor = page.next_cursor
            if cursor is None:
                return seen


@pytest.fixture
async def tenants(system_database: Database) -> AsyncIterator[List]:
    made = List(system_database, f"p{uuid4().hex[:8]}")
    yield made
    await made.clear()


@dataclass(frozen=True)
class Loop:
    """An event loop with connections of its own, for properties: many examples a test."""

    runner: asyncio.Runner
    database: Database

    def run(self, work: Coroutine[None, None, None]) -> None:
        self.runner.run(work)


@pytest.fixture(scope="module")
def loop(services: Settings) -> Iterator[Loop]:
    assert services.database_system_url is not None
    with asyncio.Runner() as runner:
        database = Database(services.database_system_url.get_secret_value(), pool_size=1)
        yield Loop(runner, database)
        runner.run(database.dispose())


AGES = st.lists(st.integers(0, 5), max_size=8)


@given(before=AGES, during=AGES, limit=st.integers(1, 4), keyset=st.sampled_from([NEWEST, OLDEST]))
def test_pages_put_together_are_the_list_whatever_is_inserted_meanwhile(
    loop: Loop,
    before: list[int],
    during: list[int],
    limit: int,
    keyset: Keyset,
) -> None:
    """No row comes twice, none that was there at the start is missed, and the order holds."""

    async def read() -> None:
        rows = List(loop.database, f"p{uuid4().hex[:8]}")
        await rows.add(*before)
        there = await rows.everything(keyset, 200)
        assert len(there) == len(before)
        assert await rows.everything(keyset, limit) == there
        seen: list[UUID] = []
        cursor, coming = None, list(during)
        while True:
            page = await rows.page(keyset, limit, cursor)
            seen += [id_ for (id_,) in page.items]
            cursor = page.next_cursor
            if coming:
                await rows.add(coming.pop())
            if cursor is None:
                break
        assert len(set(seen)) == len(seen)
        assert [id_ for id_ in seen if id_ in set(there)] == there
        await rows.clear()

    loop.run(read())


async def test_a_cursor_outlives_the_row_it_names(tenants: List, system_database: Database) -> None:
    await tenants.add(1, 2, 3)
    first, second, third = await tenants.everything(NEWEST, 10)
    page = await tenants.page(NEWEST, 1, None)
    assert page.items == [(first,)]
    async with system_database.unit_of_work() as session:
        await session.execute(delete(Limits).where(Limits.tenant_id == first))
        await session.execute(delete(Tenant).where(Tenant.id == first))
    assert (await tenants.page(NEWEST, 5, page.next_cursor)).items == [(second,), (third,)]


async def test_names_are_told_apart_from_the_times_of_another_list(tenants: List) -> None:
    await tenants.add(1, 2)
    cursor = (await tenants.page(NAMES, 1, None)).next_cursor
    assert cursor is not None
    assert len((await tenants.page(NAMES, 9, cursor)).items) == 1
    with pytest.raises(InvalidCursor):
        await tenants.page(NEWEST, 1, cursor)


async def test_a_page_keeps_the_columns_asked_for(tenants: List, system_database: Database) -> None:
    await tenants.add(1)
    mine = select(Tenant, Tenant.state).where(Tenant.name.startswith(tenants.mark))
    async with system_database.unit_of_work() as session:
        page = await NAMES.page(session, mine, PageRequest())
    assert page.map(lambda row: (row[0].created_at, row[1])).items == [
        (MOMENT - timedelta(hours=1), "active")
    ]


def encoded(told: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(told).encode()).decode().rstrip("=")


SOME_ID = "5d3c2b1a-0b0a-4908-8706-050403020100"

FORGED = [
    "",
    "!",
    "é",
    "////",
    "YQ",
    encoded({}),
    encoded(["newest"]),
    encoded(["newest", 1, 2]),
    encoded(["newest", "yesterday", SOME_ID]),
    encoded(["newest", "2026-01-01T00:00:00", SOME_ID]),
    encoded(["newest", "0001-01-01T00:00:00+23:00", SOME_ID]),
    encoded(["newest", "2026-01-01T00:00:00Z", "1"]),
    encoded(["newest", "2026-01-01T00:00:00Z", SOME_ID, "more"]),
    "W" * 400,
    encoded(json.loads("[" * 60 + "]" * 60)),
]


@pytest.mark.parametrize("cursor", FORGED)
async def test_a_forged_cursor_is_refused_by_name(tenants: List, cursor: str) -> None:
    with pytest.raises(InvalidCursor) as refused:
        await tenants.page(NEWEST, 1, cursor)
    assert refused.value.field == "cursor"


@pytest.mark.parametrize("key", [2**63, -(2**63) - 1, True, 1.5, "1", None, "\0", "\ud800"])
async def test_a_key_that_no_row_can_have_never_reaches_the_database(
    system_database: Database, key: object
) -> None:
    async with system_database.unit_of_work() as session:
        with pytest.raises(InvalidCursor):
            await MESSAGES.page(
                session,
                select(OutboxMessage.task),
                PageRequest(1, encoded(["messages", key])),
            )


@given(told=st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_whatever_a_cursor_says_is_a_position_or_refused(loop: Loop, told: object) -> None:
    async def read() -> None:
        async with loop.database.unit_of_work() as session:
            try:
                await NAMES.page(
                    session, select(Tenant.id), PageRequest(1, encoded(["names", told]))
                )
            except InvalidCursor:
                assert not isinstance(told, str) or "\0" in told

    loop.run(read())
