from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy import select, update

from loraplex.platform.database.sessions import Database
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.errors import InvalidKey, InvalidSession, TenantSuspended
from loraplex.platform.tenancy.keys import KeyKind, label_of, new_key
from loraplex.platform.tenancy.models import (
    ApiKey,
    OperatorSession,
    Tenant,
    TenantState,
    WebSession,
)
from loraplex.platform.tenancy.principals import (
    SCOPES_OF,
    OperatorPrincipal,
    OperatorRole,
    Role,
    TenantPrincipal,
)
from loraplex.platform.tenancy.service import Authenticator

ADDRESS = "192.0.2.10"


@pytest.fixture
def authenticator(database: Database, secret_keys: SecretKeys) -> Authenticator:
    return Authenticator(database, secret_keys)


async def make_key(
    system: Database,
    administration: TenantAdministration,
    name: str,
    expires_at: datetime | None = None,
) -> tuple[UUID, str]:
    async with system.unit_of_work() as session:
        tenant = await administration.create_tenant(session, name, max_concurrent_requests=7)
        key, text = await administration.create_key(session, tenant, "ci", expires_at=expires_at)
    return key.id, text


async def suspend(system: Database, name: str) -> None:
    async with system.unit_of_work() as session:
        statement = update(Tenant).where(Tenant.name == name)
        await session.execute(statement.values(state=TenantState.SUSPENDED))


async def test_a_key_proves_its_tenant(
    authenticator: Authenticator,
    system_database: Database,
    administration: TenantAdministration,
    name: str,
) -> None:
    key_id, key = await make_key(system_database, administration, name)
    principal = await authenticator.authenticate(key, ADDRESS)
    assert isinstance(principal, TenantPrincipal)
    async with system_database.unit_of_work() as session:
        tenant = await administration.find_tenant(session, name)
    assert principal == TenantPrincipal(
        tenant_id=principal.tenant_id,
        tenant_name=name,
        namespace=principal.namespace,
        key_id=key_id,
        member_id=None,
        role=Role.OWNER,
        scopes=SCOPES_OF[Role.OWNER],
        models=None,
        label=principal.label,
    )
    assert (principal.tenant_id, principal.namespace) == (tenant.id, tenant.namespace)
    assert principal.label == f"ci ({label_of(key)})"


async def test_an_operators_key_proves_an_operator_and_no_tenant(
    authenticator: Authenticator, system_database: Database, administration: TenantAdministration
) -> None:
    async with system_database.unit_of_work() as session:
        key, text = await administration.create_operator_key(session, "oncall")
    principal = await authenticator.authenticate(text, ADDRESS)
    assert principal == OperatorPrincipal(key.id, None, "oncall", OperatorRole.ADMIN)


async def test_an_unknown_key_is_refused(authenticator: Authenticator) -> None:
    with pytest.raises(InvalidKey):
        await authenticator.authenticate(new_key(KeyKind.TENANT), "192.0.2.11")


async def test_a_revoked_key_is_refused_at_once_and_so_are_its_sessions(
    authenticator: Authenticator,
    system_database: Database,
    administration: TenantAdministration,
    name: str,
) -> None:
    key_id, key = await make_key(system_database, administration, name)
    token, _ = await authenticator.open_session(key, ADDRESS)
    async with system_database.unit_of_work() as session:
        await administration.revoke_key(session, key_id)
    with pytest.raises(InvalidKey):
        await authenticator.authenticate(key, "192.0.2.12")
    with pytest.raises(InvalidSession):
        await authenticator.session(token)


async def test_an_expired_key_is_refused(
    authenticator: Authenticator,
    system_database: Database,
    administration: TenantAdministration,
    name: str,
) -> None:
    key_id, key = await make_key(system_database, administration, name)
    async with system_database.unit_of_work() as session:
        mine = update(ApiKey).where(ApiKey.id == key_id)
        await session.execute(mine.values(expires_at=datetime.now(UTC) - timedelta(seconds=1)))
    with pytest.raises(InvalidKey, match="has expired"):
        await authenticator.authenticate(key, "192.0.2.13")


async def test_a_suspended_tenant_is_told_so(
    authenticator: Authenticator,
    system_database: Database,
    administration: TenantAdministration,
    name: str,
) -> None:
    _, key = await make_key(system_database, administration, name)
    token, _ = await authenticator.open_session(key, ADDRESS)
    await suspend(system_database, name)
    with pytest.raises(TenantSuspended):
        await authenticator.authenticate(key, ADDRESS)
    with pytest.raises(TenantSuspended):
        await authenticator.session(token)
    with pytest.raises(TenantSuspended):
        await authenticator.open_session(key, ADDRESS)


async def test_a_session_proves_what_its_key_proves_until_it_is_closed(
    authenticator: Authenticator,
    system_database: Database,
    administration: TenantAdministration,
    name: str,
) -> None:
    _, key = await make_key(system_database, administration, name)
    token, opened = await authenticator.open_session(key, ADDRESS)
    assert opened == await authenticator.session(token)
    assert opened == await authenticator.authenticate(key, ADDRESS)
    await authenticator.close_session(token)
    await authenticator.close_session(token)
    with pytest.raises(InvalidSession):
        await authenticator.session(token)


async def test_a_session_ends_with_its_key(
    authenticator: Authenticator,
    system_database: Database,
    administration: TenantAdministration,
    name: str,
) -> None:
    soon = datetime.now(UTC) + timedelta(minutes=5)
    key_id, key = await make_key(system_database, administration, name, expires_at=soon)
    await authenticator.open_session(key, ADDRESS)
    async with system_database.unit_of_work() as session:
        mine = WebSession.api_key_id == key_id
        assert await session.scalar(select(WebSession.expires_at).where(mine)) == soon


async def test_an_expired_session_is_refused(
    authenticator: Authenticator, system_database: Database, administration: TenantAdministration
) -> None:
    async with system_database.unit_of_work() as session:
        key, text = await administration.create_operator_key(session, "oncall")
    token, _ = await authenticator.open_session(text, ADDRESS)
    assert await authenticator.session(token) == OperatorPrincipal(
        key.id, None, "oncall", OperatorRole.ADMIN
    )
    async with system_database.unit_of_work() as session:
        mine = update(OperatorSession).where(OperatorSession.operator_key_id == key.id)
        await session.execute(mine.values(expires_at=datetime.now(UTC) - timedelta(seconds=1)))
    with pytest.raises(InvalidSession):
        await authenticator.session(token)


async def test_a_key_signed_with_an_older_secret_still_works(
    database: Database, system_database: Database, name: str
) -> None:
    old, new = "old-" * 10, "new-" * 10
    _, key = await make_key(system_database, TenantAdministration(SecretKeys([old])), name)
    rotated = Authenticator(database, SecretKeys([new, old]))
    assert isinstance(await rotated.authenticate(key, ADDRESS), TenantPrincipal)
    forgotten = Authenticator(database, SecretKeys([new]))
    with pytest.raises(InvalidKey):
        await forgotten.authenticate(key, "192.0.2.14")


async def test_a_malformed_key_is_refused_although_the_database_is_gone(
    secret_keys: SecretKeys,
) -> None:
    gone = Database("postgresql://nobody:nothing@127.0.0.1:1/none")
    authenticator = Authenticator(gone, secret_keys)
    with pytest.raises(InvalidKey):
        await authenticator.authenticate("sk-not-ours", "192.0.2.15")
    await gone.dispose()
