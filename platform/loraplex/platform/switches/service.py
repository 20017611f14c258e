"""Turns kill switches, and reads them where the very last word counts. Commits nothing."""

from sqlalchemy import exists, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.database.pages import Keyset, Page, PageRequest
from loraplex.platform.pools.models import Worker
from loraplex.platform.switches.errors import PoolNotFound, UploadsOff
from loraplex.platform.switches.models import Switch
from loraplex.platform.switches.names import DRAIN_POOL, NO_UPLOADS, check_name

BY_NAME = Keyset("switches", Switch.name)


async def turn(
    session: AsyncSession, actor: Actor, name: str, *, is_on: bool, reason: str
) -> Switch:
    """Turn a switch on or off, on role `system`; with another reason only, that is noted.

    In force when the transaction commits for whoever reads the table, and within five seconds on
    every gateway. Raises UnknownSwitch, and PoolNotFound when a pool without workers is to be
    drained.
    """
    check_name(name)
    pool = name.removeprefix(DRAIN_POOL)
    if is_on and pool != name:
        has_workers = await session.scalar(select(exists().where(Worker.pool == pool)))
        if not has_workers:
            raise PoolNotFound(pool)
    before = await session.scalar(select(Switch).where(Switch.name == name).with_for_update())
    told = None if before is None else {"is_on": before.is_on, "reason": before.reason}
    values = {"is_on": is_on, "reason": reason, "changed_by": actor.label}
    statement = (
        insert(Switch)
        .values(name=name, **values)
        .on_conflict_do_update(
            index_elements=[Switch.name], set_=values | {"changed_at": func.now()}
        )
        .returning(Switch)
    )
    switch = (await session.scalars(statement, execution_options={"populate_existing": True})).one()
    await record(
        session,
        actor,
        "switch.turned_on" if is_on else "switch.turned_off",
        tenant_id=None,
        target=Target("switch", switch.id, name),
        before=told,
        after={"is_on": is_on, "reason": reason},
    )
    return switch


async def page_of_switches(session: AsyncSession, wanted: PageRequest) -> Page[Switch]:
    """Every switch there is, by name; raises InvalidCursor."""
    page = await BY_NAME.page(session, select(Switch), wanted)
    return page.map(lambda row: row[0])


async def names_on(session: AsyncSession) -> frozenset[str]:
    """The names of those that are on, read now."""
    return frozenset(await session.scalars(select(Switch.name).where(Switch.is_on)))


async def is_on(session: AsyncSession, name: str) -> bool:
    """Whether a switch is on, read now: for jobs, and where nothing may slip past."""
    return bool(await session.scalar(select(exists().where(Switch.name == name, Switch.is_on))))


async def refuse_if_uploads_are_off(session: AsyncSession) -> None:
    """Raise UploadsOff if it is so, read now."""
    if await is_on(session, NO_UPLOADS):
        raise UploadsOff
