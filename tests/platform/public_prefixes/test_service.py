"""What an operator may declare public, and how a bad declaration is refused."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from sqlalchemy import delete, select
from sqlalchemy.exc import ProgrammingError

from loraplex.platform.audit.actors import Actor
from loraplex.platform.audit.models import AuditEvent
from loraplex.platform.database.pages import PageRequest
from loraplex.platform.database.sessions import Database
from loraplex.platform.public_prefixes import service
from loraplex.platform.public_prefixes.errors import (
    InvalidPublicPrefix,
    PublicPrefixNotFound,
    TooManyPublicPrefixes,
)
from loraplex.platform.public_prefixes.models import PublicPrefix

ACTOR = Actor.system("tests")


@pytest.fixture
async def system(system_database: Database) -> AsyncIterator[Database]:
    """The database, with nothing declared before or after."""
    for is_over in (False, True):
        async with system_database.unit_of_work() as session:
            await session.execute(delete(PublicPrefix))
        if not is_over:
            yield system_database


async def declare(database: Database, name: str, text: str) -> PublicPrefix:
    async with database.unit_of_work() as session:
        return await service.declare(session, ACTOR, name, text)


async def test_what_is_declared_every_gateway_can_read_until_it_is_withdrawn(
    system: Database, database: Database
) -> None:
    async def texts() -> dict[str, str]:
        async with database.unit_of_work() as session:
            known = await service.declared_when(session)
            found = dict(await service.declared_texts(session))
        assert known.keys() == found.keys()
        return found

    first = await declare(system, "support", "Be brief.")
    await declare(system, "billing", "Never promise money.")
    again = await declare(system, "support", "Be kind – always.")
    assert again.id == first.id
    assert again.declared_at > first.declared_at
    assert await texts() == {"support": "Be kind – always.", "billing": "Never promise money."}
    async with system.unit_of_work() as session:
        await service.withdraw(session, ACTOR, "support")
    assert await texts() == {"billing": "Never promise money."}
    async with system.unit_of_work() as session:
        page = await service.page_of_prefixes(session, PageRequest(1))
        with pytest.raises(PublicPrefixNotFound, match="support"):
            await service.withdraw(session, ACTOR, "support")
    assert ([row.name for row in page.items], page.next_cursor) == (["billing"], None)


async def test_the_log_tells_which_text_it_was_and_does_not_repeat_it(system: Database) -> None:
    name = f"p-{uuid4().hex[:8]}"
    for text in ("one", "other"):
        await declare(system, name, text)
    async with system.unit_of_work() as session:
        mine = select(AuditEvent).where(AuditEvent.target_name == name)
        first, second = await session.scalars(mine.order_by(AuditEvent.created_at))
    assert (first.action, first.before) == ("public_prefix.declared", None)
    assert second.before == first.after
    assert second.before is not None
    assert second.before["bytes"] == 3
    assert second.after != first.after


@pytest.mark.parametrize("name", ["", "Support", "a/b", "..", "a" * 64, "ä"])
async def test_a_name_is_one_that_a_path_can_hold(system: Database, name: str) -> None:
    with pytest.raises(InvalidPublicPrefix) as refused:
        await declare(system, name, "text")
    assert refused.value.field == "name"


@pytest.mark.parametrize("text", ["", "a" * (service.MAX_TEXT_BYTES + 1), "é" * 131_073, "a\0b"])
async def test_a_text_is_something_and_not_endless(system: Database, text: str) -> None:
    with pytest.raises(InvalidPublicPrefix) as refused:
        await declare(system, "support", text)
    assert refused.value.field == "text"
    assert len(str(refused.value)) < 200


async def test_the_longest_text_is_one(system: Database) -> None:
    await declare(system, "support", "é" * 131_072)


async def test_there_are_never_more_than_may_be(
    system: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_PREFIXES", 3)
    await declare(system, "mine", "text")
    ends = await asyncio.gather(
        *(declare(system, f"p{number}", "text") for number in range(6)), return_exceptions=True
    )
    assert sum(isinstance(end, TooManyPublicPrefixes) for end in ends) == 4
    await declare(system, "mine", "another text")


async def test_gateways_read_and_change_nothing(database: Database, system: Database) -> None:
    with pytest.raises(ProgrammingError, match="permission denied"):
        await declare(database, "support", "text")
