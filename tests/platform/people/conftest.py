"""Tenants, and people who signed up through invitations."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID, uuid4

import pytest

from loraplex.platform.database.sessions import Database
from loraplex.platform.people.accepting import Accepting
from loraplex.platform.people.administration import PeopleAdministration
from loraplex.platform.people.invitations import Invitations
from loraplex.platform.people.passwords import Passwords
from loraplex.platform.people.sessions import PeopleSessions
from loraplex.platform.people.signed_in import Client, SignedInPerson
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import Tenant
from loraplex.platform.tenancy.principals import OperatorRole, Role

PASSWORD = "correct horse battery"


def client() -> Client:
    """Somebody's browser, at an address of its own, so that no other test's failures count."""
    octets = uuid4().bytes
    return Client(f"10.{octets[0]}.{octets[1]}.{octets[2]}", "Firefox")


@dataclass
class Person:
    """Somebody with a password, as they signed in last."""

    email: str
    token: str
    signed_in: SignedInPerson

    @property
    def member_id(self) -> UUID:
        assert self.signed_in.place is not None
        return self.signed_in.place.membership_id


@pytest.fixture
def secret_keys(services: Settings) -> SecretKeys:
    return SecretKeys.from_settings(services)


@pytest.fixture
def passwords() -> Passwords:
    """As cheap as argon2 goes: what it costs is tested where it matters."""
    return Passwords(time_cost=1, memory_kibibytes=8)


@pytest.fixture
def invitations(secret_keys: SecretKeys) -> Invitations:
    return Invitations(secret_keys)


@pytest.fixture
def sessions(database: Database, secret_keys: SecretKeys, passwords: Passwords) -> PeopleSessions:
    return PeopleSessions(database, secret_keys, passwords)


@pytest.fixture
def accepting(
    database: Database, invitations: Invitations, sessions: PeopleSessions, passwords: Passwords
) -> Accepting:
    return Accepting(database, invitations, sessions, passwords)


@pytest.fixture
def administration(invitations: Invitations) -> PeopleAdministration:
    return PeopleAdministration(invitations)


@pytest.fixture
async def tenant(system_database: Database, secret_keys: SecretKeys) -> Tenant:
    async with system_database.unit_of_work() as session:
        return await TenantAdministration(secret_keys).create_tenant(session, f"t-{uuid4().hex}")


@pytest.fixture
async def other_tenant(system_database: Database, secret_keys: SecretKeys) -> Tenant:
    async with system_database.unit_of_work() as session:
        return await TenantAdministration(secret_keys).create_tenant(session, f"t-{uuid4().hex}")


Invite = Callable[..., Awaitable[str]]
Join = Callable[..., Awaitable[Person]]


@pytest.fixture
def invite(database: Database, invitations: Invitations) -> Invite:
    """A link's token to a role in a tenant."""

    async def make(tenant: Tenant, email: str, role: Role = Role.DEVELOPER) -> str:
        async with database.unit_of_work(TenantId(tenant.id)) as session:
            _, token = await invitations.to_tenant(
                session, TenantId(tenant.id), email, role, "test"
            )
        return token

    return make


@pytest.fixture
def join(invite: Invite, accepting: Accepting) -> Join:
    """Somebody new who is a member now."""

    async def make(tenant: Tenant, role: Role = Role.DEVELOPER) -> Person:
        email = f"{uuid4().hex}@example.com"
        token = await invite(tenant, email, role)
        cookie, person = await accepting.accept(token, client(), password=PASSWORD)
        return Person(email, cookie, person)

    return make


@pytest.fixture
async def operator(
    system_database: Database, administration: PeopleAdministration, accepting: Accepting
) -> Person:
    """A person who administers the platform."""
    email = f"{uuid4().hex}@example.com"
    async with system_database.unit_of_work() as session:
        _, token = await administration.invite_operator(session, email, OperatorRole.ADMIN, "test")
    cookie, person = await accepting.accept(token, client(), password=PASSWORD)
    return Person(email, cookie, person)
