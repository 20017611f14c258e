"""Operators' choices reach a gateway, a key's before its tenant's."""

from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.platform.audit.actors import Actor
from loraplex.platform.database.sessions import Database
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.slo import service
from loraplex.platform.slo.choices import SloChoices, busiest_tenants
from loraplex.platform.slo.classes import SloClasses
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.errors import KeyNotFound
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import Tenant
from loraplex.platform.tenancy.principals import SCOPES_OF, Role, TenantPrincipal

CALLED = text(
    "INSERT INTO usage_rollups (tenant_id, width, bucket_start, requests, prompt_tokens,"
    " cached_tokens, output_tokens, cost_micros)"
    " VALUES (:tenant_id, '1h', date_trunc('hour', now()), 1000000000, 0, 0, 0, 0)"
)
CLASSES = SloClasses.parse("fast:ttft=1s;usual;slow", "usual")


@pytest.fixture
async def tenant(system_database: Database) -> Tenant:
    async with system_database.unit_of_work() as session:
        administration = TenantAdministration(SecretKeys(["k" * 32]))
        return await administration.create_tenant(session, f"t-{uuid4().hex[:12]}")


async def new_key(system: Database, tenant: Tenant) -> UUID:
    async with system.unit_of_work() as session:
        administration = TenantAdministration(SecretKeys(["k" * 32]))
        key, _ = await administration.create_key(session, tenant, "test")
        return key.id


def principal(tenant: Tenant, key_id: UUID | None) -> TenantPrincipal:
    return TenantPrincipal(
        tenant_id=TenantId(tenant.id),
        tenant_name=tenant.name,
        namespace=TenantNamespace(tenant.namespace),
        key_id=key_id,
        member_id=None,
        role=Role.OWNER,
        scopes=SCOPES_OF[Role.OWNER],
        models=None,
        label="test",
    )


async def test_a_key_has_its_own_class_or_its_tenants_or_the_default(
    database: Database, system_database: Database, tenant: Tenant
) -> None:
    own, other = [await new_key(system_database, tenant) for _ in range(2)]
    choices = SloChoices(database, CLASSES)

    async def classes() -> list[str]:
        await choices.read()
        return [choices.class_of(principal(tenant, key)).name for key in (own, other, None)]

    async def choose(name: str | None, key_id: UUID | None = None) -> None:
        async with system_database.unit_of_work() as session:
            await service.choose(session, Actor.command_line(), tenant, name, key_id=key_id)

    assert await classes() == ["usual", "usual", "usual"]
    await choose("slow")
    await choose("fast", own)
    assert await classes() == ["fast", "slow", "slow"]
    assert choices.class_of_tenant(principal(tenant, own)).name == "slow"
    await choose("gone", own)  # the settings had it once
    assert await classes() == ["slow", "slow", "slow"]
    await choose(None)
    await choose("fast", own)
    assert await classes() == ["fast", "usual", "usual"]


async def test_another_tenants_key_cannot_be_chosen_for(
    system_database: Database, tenant: Tenant
) -> None:
    async with system_database.unit_of_work() as session:
        with pytest.raises(KeyNotFound):
            await service.choose(session, Actor.command_line(), tenant, "fast", key_id=uuid4())


async def test_the_busiest_tenants_of_the_last_day_are_named(
    database: Database, system_database: Database, tenant: Tenant
) -> None:
    async with system_database.unit_of_work() as session:
        await session.execute(CALLED, {"tenant_id": tenant.id})
    assert await busiest_tenants(database, 1) == [tenant.name]
    assert await busiest_tenants(database, 0) == []
