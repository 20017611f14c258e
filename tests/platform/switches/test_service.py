from uuid import uuid4

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import ProgrammingError

from loraplex.platform.audit.models import AuditEvent
from loraplex.platform.database.pages import FIRST_PAGE
from loraplex.platform.database.sessions import Database
from loraplex.platform.switches.errors import PoolNotFound, UnknownSwitch
from loraplex.platform.switches.names import FIXED, NO_UPLOADS, check_name
from loraplex.platform.switches.service import is_on, names_on, page_of_switches, turn
from tests.switched import TESTER, switched_on, turned


async def test_the_switches_are_there_and_off_from_the_start(system_database: Database) -> None:
    async with system_database.unit_of_work() as session:
        page = await page_of_switches(session, FIRST_PAGE)
        found = {row.name: row.is_on for row in page.items if row.name in FIXED}
    assert found == dict.fromkeys(FIXED, False)


async def test_a_switch_is_read_by_all_and_turned_by_operators_alone(
    database: Database, system_database: Database
) -> None:
    async with switched_on(system_database, NO_UPLOADS):
        async with database.unit_of_work() as session:
            assert NO_UPLOADS in await names_on(session)
            assert await is_on(session, NO_UPLOADS)
        with pytest.raises(ProgrammingError, match="permission denied"):
            async with database.unit_of_work() as session:
                await session.execute(text("UPDATE switches SET is_on = false"))
    async with database.unit_of_work() as session:
        assert not await is_on(session, NO_UPLOADS)


async def test_each_turn_is_in_the_audit_log_with_its_reason(system_database: Database) -> None:
    reason = uuid4().hex
    async with system_database.unit_of_work() as session:
        row = await turn(session, TESTER, NO_UPLOADS, is_on=False, reason=reason)
        assert (row.changed_by, row.reason) == ("test", reason)
    async with switched_on(system_database, NO_UPLOADS):
        pass
    newest = select(AuditEvent).where(AuditEvent.target_name == NO_UPLOADS)
    newest = newest.order_by(AuditEvent.created_at.desc()).limit(2)
    async with system_database.unit_of_work() as session:
        off, on = await session.scalars(newest)
    assert (on.action, on.before, on.after) == (
        "switch.turned_on",
        {"is_on": False, "reason": reason},
        {"is_on": True, "reason": "a test"},
    )
    assert (off.action, off.tenant_id) == ("switch.turned_off", None)


async def test_a_pool_without_workers_is_refused_since_its_name_may_be_mistyped(
    system_database: Database,
) -> None:
    name = f"drain_pool:{uuid4().hex}"
    with pytest.raises(PoolNotFound):
        await turned(system_database, name, is_on=True)
    await turned(system_database, name, is_on=False)  # its workers may all be gone by now


@pytest.mark.parametrize("name", ["", "readonly", "drain_pool", "drain_pool:", "drain_pool:a/b"])
def test_there_are_no_other_switches(name: str) -> None:
    with pytest.raises(UnknownSwitch):
        check_name(name)
