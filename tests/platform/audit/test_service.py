from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import ProgrammingError

from loraplex.platform.audit.actors import Actor, ActorKind, Target
from loraplex.platform.audit.models import AuditEvent
from loraplex.platform.audit.service import record
from loraplex.platform.database.sessions import Database
from loraplex.platform.tenancy.identity import TenantId

KEY = Actor(ActorKind.KEY, uuid4(), "ci", address="192.0.2.7", request_id="r1")
PINNED = Target("adapter", uuid4(), "parrot")


@pytest.fixture(params=["app", "system"])
async def writer(
    request: pytest.FixtureRequest, database: Database, system_database: Database
) -> AsyncIterator[Database]:
    """Both roles that change things: gateways, and jobs and operators."""
    yield database if request.param == "app" else system_database


async def pin(writer: Database, tenant_id: TenantId) -> None:
    async with writer.unit_of_work(tenant_id) as session:
        await record(
            session, KEY, "adapter.pinned", tenant_id=tenant_id, target=PINNED, after={"pinned": 1}
        )


async def events(reader: Database, tenant_id: TenantId | None) -> list[AuditEvent]:
    async with reader.unit_of_work(tenant_id) as session:
        mine = select(AuditEvent).where(AuditEvent.tenant_id == tenant_id)
        return list(await session.scalars(mine))


async def test_a_line_says_who_did_what_to_which_and_from_where(
    writer: Database, database: Database, tenant_id: TenantId
) -> None:
    await pin(writer, tenant_id)
    [event] = await events(database, tenant_id)
    assert (event.action, event.actor_kind, event.actor_id) == ("adapter.pinned", "key", KEY.id)
    assert (event.actor_label, event.address, event.request_id) == ("ci", "192.0.2.7", "r1")
    assert (event.target_kind, event.target_name) == ("adapter", "parrot")
    assert event.target_id == str(PINNED.id)
    assert (event.before, event.after) == (None, {"pinned": 1})


async def test_a_change_that_is_rolled_back_leaves_no_line(
    writer: Database, database: Database, tenant_id: TenantId
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with writer.unit_of_work(tenant_id) as session:
            await record(session, KEY, "adapter.pinned", tenant_id=tenant_id, target=PINNED)
            raise ZeroDivisionError
    assert await events(database, tenant_id) == []


async def test_what_belongs_to_no_tenant_is_written_by_both_and_seen_by_operators_alone(
    writer: Database, database: Database, system_database: Database
) -> None:
    target = Target("user", None, f"{uuid4().hex}@example.com")
    nobody = Actor(ActorKind.PERSON, None, "a stranger", address="192.0.2.8")
    async with writer.unit_of_work() as session:
        await record(session, nobody, "login.failed", tenant_id=None, target=target)
    named = select(AuditEvent).where(AuditEvent.target_name == target.name)
    async with system_database.unit_of_work() as session:
        [event] = await session.scalars(named)
        assert (event.tenant_id, event.before, event.after) == (None, None, None)
    async with database.unit_of_work() as session:
        assert (await session.scalars(named)).all() == []


async def test_a_tenant_neither_sees_nor_writes_the_neighbours_lines(
    database: Database, tenant_id: TenantId, neighbour_id: TenantId
) -> None:
    await pin(database, neighbour_id)
    assert await events(database, tenant_id) == []
    with pytest.raises(ProgrammingError, match="row-level security"):
        async with database.unit_of_work(tenant_id) as session:
            await record(session, KEY, "adapter.pinned", tenant_id=neighbour_id, target=PINNED)


async def test_nobody_changes_or_deletes_a_line_or_says_when_it_was_written(
    writer: Database, tenant_id: TenantId
) -> None:
    await pin(writer, tenant_id)
    mine = AuditEvent.tenant_id == tenant_id
    forbidden = [
        update(AuditEvent).where(mine).values(actor_label="somebody else"),
        delete(AuditEvent).where(mine),
        insert(AuditEvent).values(
            id=UUID(int=1),
            tenant_id=tenant_id,
            action="a.b",
            actor_kind="key",
            actor_label="",
            target_kind="a",
        ),
        select(AuditEvent).where(mine).with_for_update(),
    ]
    for statement in forbidden:
        with pytest.raises(ProgrammingError, match="permission denied"):
            async with writer.unit_of_work(tenant_id) as session:
                await session.execute(statement)


async def test_an_action_is_a_noun_and_a_verb(database: Database, tenant_id: TenantId) -> None:
    with pytest.raises(Exception, match="audit_events_action_check"):
        async with database.unit_of_work(tenant_id) as session:
            await record(session, KEY, "Pinned it!", tenant_id=tenant_id, target=PINNED)


async def test_lines_of_one_transaction_keep_their_order(
    database: Database, tenant_id: TenantId
) -> None:
    actions = ["adapter.created", "adapter.pinned", "adapter.deleted"]
    async with database.unit_of_work(tenant_id) as session:
        for action in actions:
            await record(session, KEY, action, tenant_id=tenant_id, target=PINNED)
    found = await events(database, tenant_id)
    assert [one.action for one in sorted(found, key=lambda one: one.created_at)] == actions
