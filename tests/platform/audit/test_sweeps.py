import asyncio
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import select

from loraplex.platform.audit import sweeps
from loraplex.platform.audit.models import AuditEvent
from loraplex.platform.audit.sweeps import sweep_audit
from loraplex.platform.database.sessions import Database
from loraplex.platform.database.urls import libpq_url
from loraplex.platform.jobs import JobContext
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.identity import TenantId

LINE = """
INSERT INTO audit_events (tenant_id, created_at, action, actor_kind, actor_label, target_kind,
                          target_name)
SELECT %s, now() - %s::interval, 'adapter.pinned', 'key', 'ci', 'adapter', %s
FROM generate_series(1, %s)
"""


@pytest.fixture
def context(services: Settings, system_database: Database) -> JobContext:
    short = services.model_copy(update={"audit_kept_days": 30})
    return JobContext(short, system_database, asyncio.Runner())


def write(services: Settings, tenant_id: TenantId, age: str, name: str, lines: int = 1) -> None:
    """Lines of the past, which only the table's owner can write."""
    assert services.database_migrator_url is not None
    url = libpq_url(services.database_migrator_url.get_secret_value())
    with psycopg.connect(url) as owner:
        owner.execute(LINE, (tenant_id, age, name, lines))


async def test_old_lines_are_forgotten_in_batches_by_sweeps_at_once_and_that_is_noted(
    context: JobContext,
    services: Settings,
    system_database: Database,
    tenant_id: TenantId,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sweeps, "BATCH_ROWS", 10)
    old, young = uuid4().hex, uuid4().hex
    write(services, tenant_id, "31 days", old, 55)
    write(services, tenant_id, "29 days", young)
    await asyncio.gather(sweep_audit(context), sweep_audit(context))
    async with system_database.unit_of_work() as session:
        mine = select(AuditEvent.target_name).where(AuditEvent.tenant_id == tenant_id)
        assert list(await session.scalars(mine)) == [young]
        noted = select(AuditEvent.after).where(AuditEvent.action == "audit.forgotten")
        forgotten = [after["lines"] for after in await session.scalars(noted) if after is not None]
    assert sum(int(str(lines)) for lines in forgotten) >= 55


async def test_the_database_itself_forgets_nothing_of_the_last_thirty_days(
    services: Settings, system_database: Database, tenant_id: TenantId
) -> None:
    write(services, tenant_id, "29 days", "young")
    hasty = services.model_copy(update={"audit_kept_days": 0})
    await sweep_audit(JobContext(hasty, system_database, asyncio.Runner()))
    async with system_database.unit_of_work() as session:
        mine = select(AuditEvent).where(AuditEvent.tenant_id == tenant_id)
        assert len((await session.scalars(mine)).all()) == 1
