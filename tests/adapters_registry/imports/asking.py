"""Imports of a source of the tests' own, and what the tables say of them."""

from datetime import timedelta

from sqlalchemy import func, select, update

from loraplex.adapters_registry.imports import lifecycle
from loraplex.adapters_registry.imports.models import AdapterImport
from loraplex.adapters_registry.imports.sources import CONFIG_FILE, WEIGHTS_FILE, HttpsSource
from loraplex.adapters_registry.imports.views import ImportView
from loraplex.adapters_registry.uploads import quota
from loraplex.adapters_registry.versions.models import AdapterVersion
from loraplex.platform.admission.models import Limits
from loraplex.platform.database.outbox import OutboxMessage
from loraplex.platform.database.sessions import Database
from loraplex.platform.tenancy.principals import TenantPrincipal

CLOSED_PORT = 1024


SECRET = "signature=do-not-tell"


def source_at(port: int) -> HttpsSource:
    base = f"http://127.0.0.1:{port}/"
    return HttpsSource(f"{base}{CONFIG_FILE}?{SECRET}", f"{base}{WEIGHTS_FILE}?{SECRET}")


async def row_of(system: Database, view: ImportView) -> AdapterImport:
    async with system.unit_of_work() as session:
        statement = select(AdapterImport).where(AdapterImport.id == view.id)
        return (await session.scalars(statement)).one()


async def sealed(system: Database, view: ImportView) -> bytes | None:
    async with system.unit_of_work() as session:
        statement = select(AdapterImport.sealed_source).where(AdapterImport.id == view.id)
        return (await session.execute(statement)).scalar_one()


async def versions(system: Database, tenant: TenantPrincipal) -> list[AdapterVersion]:
    async with system.unit_of_work() as session:
        mine = select(AdapterVersion).where(AdapterVersion.tenant_id == tenant.tenant_id)
        return list((await session.scalars(mine.order_by(AdapterVersion.number))).all())


async def used_bytes(system: Database, tenant: TenantPrincipal) -> quota.StorageUsage:
    async with system.unit_of_work() as session:
        return await quota.usage(session, tenant.tenant_id)


async def asked_for(system: Database, view: ImportView) -> int:
    """How often the import's task has been asked for."""
    async with system.unit_of_work() as session:
        mine = OutboxMessage.arguments["import_id"].astext == str(view.id)
        return await session.scalar(select(func.count(OutboxMessage.id)).where(mine)) or 0


async def pass_time(system: Database, view: ImportView) -> None:
    """As if the import's deadline had come."""
    async with system.unit_of_work() as session:
        await session.execute(
            update(AdapterImport)
            .where(AdapterImport.id == view.id)
            .values(deadline_at=func.now() - timedelta(seconds=1))
        )


async def limit(system: Database, tenant: TenantPrincipal, **limits: int) -> None:
    async with system.unit_of_work() as session:
        await session.execute(
            update(Limits).where(Limits.tenant_id == tenant.tenant_id).values(**limits)
        )


async def begin(system: Database, tenant: TenantPrincipal, view: ImportView) -> lifecycle.Attempt:
    async with system.unit_of_work() as session:
        attempt = await lifecycle.begin(session, tenant.tenant_id, view.id, 1000)
    assert attempt is not None
    return attempt
