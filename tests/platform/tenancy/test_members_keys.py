"""A member's key is the member's: it does no more than they may today, and ends with them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import update

from loraplex.platform.audit.actors import Actor
from loraplex.platform.database.sessions import Database
from loraplex.platform.people.models import Membership, User
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy import key_rows
from loraplex.platform.tenancy.acting import acting_for
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.credentials import CredentialState
from loraplex.platform.tenancy.errors import InvalidKey
from loraplex.platform.tenancy.key_rules import KeyDraft
from loraplex.platform.tenancy.models import OperatorKey
from loraplex.platform.tenancy.principals import OperatorPrincipal, TenantPrincipal
from loraplex.platform.tenancy.scopes import SCOPES_OF, OperatorRole, Role, Scope
from loraplex.platform.tenancy.service import Authenticator

ADDRESS = "192.0.2.40"
WIDE = frozenset({Scope.MODELS_CALL, Scope.ADAPTERS_WRITE, Scope.USAGE_READ})


@dataclass
class Member:
    """A developer of a tenant, and a key that they made."""

    system: Database
    user: User
    membership: Membership
    principal: TenantPrincipal
    key: str

    async def change(self, row: type[Membership] | type[User], **values: Any) -> None:
        row_id = self.membership.id if row is Membership else self.user.id
        async with self.system.unit_of_work() as session:
            await session.execute(update(row).where(row.id == row_id).values(**values))


@pytest.fixture
async def member(
    database: Database, system_database: Database, administration: TenantAdministration, name: str
) -> AsyncIterator[Member]:
    user = User(id=uuid4(), email=f"{name}@example.org", display_name="Dora")
    async with system_database.unit_of_work() as session:
        tenant = await administration.create_tenant(session, name)
        membership = Membership(
            id=uuid4(),
            tenant_id=tenant.id,
            user_id=user.id,
            role=Role.DEVELOPER.value,
            source="operator",
        )
        session.add(user)
        await session.flush()
        session.add(membership)
    dora = replace(acting_for(tenant, Role.DEVELOPER, "Dora"), member_id=membership.id)
    async with database.unit_of_work(dora.tenant_id) as session:
        _, key = await administration.keys.create(
            session, dora, Actor.system("test"), KeyDraft("laptop", WIDE)
        )
    yield Member(system_database, user, membership, dora, key)


@pytest.fixture
def authenticator(database: Database, secret_keys: SecretKeys) -> Authenticator:
    return Authenticator(database, secret_keys)


async def test_it_names_its_member_and_their_role(
    member: Member, authenticator: Authenticator
) -> None:
    found = await authenticator.authenticate(member.key, ADDRESS)
    assert isinstance(found, TenantPrincipal)
    assert (found.member_id, found.role) == (member.membership.id, Role.DEVELOPER)
    assert found.scopes == WIDE


async def test_it_shrinks_with_the_role_and_grows_no_further_than_it_was_made(
    member: Member, authenticator: Authenticator, database: Database
) -> None:
    await member.change(Membership, role=Role.VIEWER.value)
    found = await authenticator.authenticate(member.key, ADDRESS)
    assert isinstance(found, TenantPrincipal)
    assert found.scopes == WIDE & SCOPES_OF[Role.VIEWER] == {Scope.USAGE_READ}
    async with database.unit_of_work(member.principal.tenant_id) as session:
        (shown,) = await key_rows.every_key(session, member.principal.tenant_id)
    assert shown.role is Role.VIEWER
    assert shown.scopes == {Scope.USAGE_READ}
    await member.change(Membership, role=Role.OWNER.value)
    found = await authenticator.authenticate(member.key, ADDRESS)
    assert isinstance(found, TenantPrincipal)
    assert found.scopes == WIDE


async def test_it_ends_with_the_membership(
    member: Member, authenticator: Authenticator, database: Database
) -> None:
    await member.change(Membership, ended_at=datetime.now(UTC))
    with pytest.raises(InvalidKey):
        await authenticator.authenticate(member.key, ADDRESS)
    async with database.unit_of_work(member.principal.tenant_id) as session:
        (shown,) = await key_rows.every_key(session, member.principal.tenant_id)
    assert shown.state is CredentialState.REVOKED


async def test_it_ends_while_the_person_is_disabled(
    member: Member, authenticator: Authenticator
) -> None:
    await member.change(User, disabled_at=datetime.now(UTC))
    with pytest.raises(InvalidKey):
        await authenticator.authenticate(member.key, ADDRESS)
    await member.change(User, disabled_at=None)
    await authenticator.authenticate(member.key, ADDRESS)


async def test_an_operators_key_follows_the_operator(
    member: Member,
    authenticator: Authenticator,
    system_database: Database,
    administration: TenantAdministration,
) -> None:
    async with system_database.unit_of_work() as session:
        made, key = await administration.create_operator_key(session, "oncall")
        mine = update(OperatorKey).where(OperatorKey.id == made.id)
        await session.execute(mine.values(user_id=member.user.id))
    with pytest.raises(InvalidKey):
        await authenticator.authenticate(key, ADDRESS)
    for role in (OperatorRole.ADMIN, OperatorRole.ADMIN_VIEWER):
        await member.change(User, operator_role=role.value, operator_role_source="operator")
        found = await authenticator.authenticate(key, ADDRESS)
        assert isinstance(found, OperatorPrincipal)
        assert (found.user_id, found.role) == (member.user.id, role)
