from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from loraplex.platform.audit.models import AuditEvent
from loraplex.platform.database.sessions import Database
from loraplex.platform.people import members
from loraplex.platform.people.accepting import Accepting
from loraplex.platform.people.administration import PeopleAdministration
from loraplex.platform.people.errors import (
    InvalidLogin,
    NoPlace,
    NotYourPlace,
    SessionNotFound,
    TooManyLogins,
    WeakPassword,
)
from loraplex.platform.people.models import PersonSession, User
from loraplex.platform.people.passwords import Passwords
from loraplex.platform.people.sessions import PeopleSessions
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.errors import InvalidSession, TenantSuspended
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import Tenant, TenantState
from loraplex.platform.tenancy.principals import (
    SCOPES_OF,
    OperatorPrincipal,
    OperatorRole,
    Role,
    TenantPrincipal,
)
from tests.platform.people.conftest import PASSWORD, Invite, Join, Person, client

OWNERS = SCOPES_OF[Role.OWNER]


async def test_a_person_is_their_role_in_their_tenant(
    sessions: PeopleSessions, tenant: Tenant, join: Join
) -> None:
    person = await join(tenant, Role.VIEWER)
    token, signed_in = await sessions.sign_in(f"  {person.email.upper()} ", PASSWORD, client())
    principal = (await sessions.find(token)).principal
    assert isinstance(principal, TenantPrincipal)
    assert principal == signed_in.principal
    assert (principal.tenant_id, principal.tenant_name) == (tenant.id, tenant.name)
    assert (principal.role, principal.scopes) == (Role.VIEWER, SCOPES_OF[Role.VIEWER])
    assert principal.key_id is None
    assert principal.member_id is not None
    assert principal.label == person.email


async def test_an_operator_is_one(sessions: PeopleSessions, operator: Person) -> None:
    token, _ = await sessions.sign_in(operator.email, PASSWORD, client())
    user_id = operator.signed_in.user_id
    assert (await sessions.find(token)).principal == OperatorPrincipal(
        None, user_id, operator.email, OperatorRole.ADMIN
    )


@pytest.mark.parametrize("case", ["wrong", "unknown", "disabled", "other's"])
async def test_one_refusal_for_all_that_is_wrong(
    case: str,
    sessions: PeopleSessions,
    administration: PeopleAdministration,
    system_database: Database,
    tenant: Tenant,
    join: Join,
) -> None:
    person = await join(tenant)
    if case == "disabled":
        async with system_database.unit_of_work() as session:
            user = await administration.find(session, person.signed_in.user_id)
            await administration.set_disabled(session, user, is_disabled=True)
    email = "nobody@example.com" if case == "unknown" else person.email
    password = PASSWORD + "!" if case == "wrong" else PASSWORD
    if case == "other's":
        password = PASSWORD.title()
    with pytest.raises(InvalidLogin) as refused:
        await sessions.sign_in(email, password, client())
    assert refused.value.message == InvalidLogin().message


async def test_guesses_from_one_network_are_stopped_and_the_owner_is_not(
    sessions: PeopleSessions, tenant: Tenant, join: Join
) -> None:
    person = await join(tenant)
    guesser = client()
    for _ in range(5):
        with pytest.raises(InvalidLogin):
            await sessions.sign_in(person.email, "guess", guesser)
    with pytest.raises(TooManyLogins) as refused:
        await sessions.sign_in(person.email, PASSWORD, guesser)
    assert 0 < (refused.value.retry_after_seconds or 0) <= 900
    assert (await sessions.sign_in(person.email, PASSWORD, client()))[0]


async def test_other_parameters_are_applied_at_the_next_good_login(
    database: Database,
    secret_keys: SecretKeys,
    system_database: Database,
    tenant: Tenant,
    join: Join,
) -> None:
    person = await join(tenant)
    dearer = PeopleSessions(database, secret_keys, Passwords(time_cost=2, memory_kibibytes=16))
    await dearer.sign_in(person.email, PASSWORD, client())
    async with system_database.unit_of_work() as session:
        kept = await session.scalar(select(User.password_hash).where(User.email == person.email))
    assert kept is not None
    assert "m=16,t=2," in kept
    await dearer.sign_in(person.email, PASSWORD, client())


async def test_a_membership_that_ends_ends_its_sessions(
    sessions: PeopleSessions, database: Database, tenant: Tenant, join: Join
) -> None:
    person = await join(tenant)
    assert person.signed_in.place is not None
    async with database.unit_of_work(TenantId(tenant.id)) as session:
        await members.remove(
            session, TenantId(tenant.id), person.signed_in.place.membership_id, OWNERS
        )
    with pytest.raises(InvalidSession):
        await sessions.find(person.token)
    with pytest.raises(NoPlace):
        await sessions.sign_in(person.email, PASSWORD, client())


async def test_a_disabled_persons_sessions_end_and_do_not_come_back(
    sessions: PeopleSessions,
    administration: PeopleAdministration,
    system_database: Database,
    tenant: Tenant,
    join: Join,
) -> None:
    person = await join(tenant)
    for is_disabled in (True, False):
        async with system_database.unit_of_work() as session:
            user = await administration.find(session, person.signed_in.user_id)
            await administration.set_disabled(session, user, is_disabled=is_disabled)
        with pytest.raises(InvalidSession):
            await sessions.find(person.token)
    assert (await sessions.sign_in(person.email, PASSWORD, client()))[0]


async def test_another_password_ends_every_session_but_the_new_one(
    sessions: PeopleSessions, tenant: Tenant, join: Join
) -> None:
    person = await join(tenant)
    with pytest.raises(WeakPassword):
        await sessions.change_password(person.signed_in, PASSWORD, "short", client())
    with pytest.raises(InvalidLogin):
        await sessions.change_password(person.signed_in, "wrong", "another password", client())
    token = await sessions.change_password(person.signed_in, PASSWORD, "another password", client())
    with pytest.raises(InvalidSession):
        await sessions.find(person.token)
    assert (await sessions.find(token)).place == person.signed_in.place
    with pytest.raises(InvalidLogin):
        await sessions.sign_in(person.email, PASSWORD, client())


async def test_a_session_ends_with_its_time(
    sessions: PeopleSessions, system_database: Database, tenant: Tenant, join: Join
) -> None:
    person = await join(tenant)
    async with system_database.unit_of_work() as session:
        mine = PersonSession.id == person.signed_in.session_id
        past = datetime.now(UTC) - timedelta(seconds=1)
        await session.execute(update(PersonSession).where(mine).values(expires_at=past))
    with pytest.raises(InvalidSession):
        await sessions.find(person.token)


async def test_a_person_sees_and_ends_their_own_sessions_alone(
    sessions: PeopleSessions, tenant: Tenant, join: Join
) -> None:
    person, colleague = await join(tenant), await join(tenant)
    other, _ = await sessions.sign_in(person.email, PASSWORD, client())
    listed = await sessions.list_own(person.token)
    assert [one.is_current for one in listed] == [False, True]
    assert all(one.user_agent == "Firefox" for one in listed)
    with pytest.raises(SessionNotFound):
        await sessions.end_own(person.token, colleague.signed_in.session_id)
    assert await sessions.end_own(person.token, None) == 1
    with pytest.raises(InvalidSession):
        await sessions.find(other)
    await sessions.find(colleague.token)
    assert await sessions.end_own(person.token, person.signed_in.session_id) == 1
    with pytest.raises(InvalidSession):
        await sessions.find(person.token)


async def test_a_person_goes_where_they_are_a_member_and_nowhere_else(
    sessions: PeopleSessions,
    system_database: Database,
    tenant: Tenant,
    other_tenant: Tenant,
    join: Join,
    invite: Invite,
    accepting: Accepting,
) -> None:
    person = await join(tenant)
    with pytest.raises(NotYourPlace):
        await sessions.choose_place(person.token, other_tenant.name)
    with pytest.raises(NotYourPlace):
        await sessions.choose_place(person.token, None)
    token = await invite(other_tenant, person.email, Role.OWNER)
    there, _ = await accepting.accept(token, client(), session_token=person.token)
    assert {place.tenant_name for place in await sessions.places(there)} == {
        tenant.name,
        other_tenant.name,
    }
    moved = await sessions.choose_place(person.token, other_tenant.name)
    assert moved.place is not None
    assert (moved.place.tenant_name, moved.place.role) == (other_tenant.name, Role.OWNER)
    async with system_database.unit_of_work() as session:
        mine = update(Tenant).where(Tenant.id == other_tenant.id)
        await session.execute(mine.values(state=TenantState.SUSPENDED))
    suspended = await sessions.find(person.token)
    with pytest.raises(TenantSuspended):
        _ = suspended.principal
    back = await sessions.choose_place(person.token, tenant.name)
    assert isinstance(back.principal, TenantPrincipal)


async def test_signing_in_is_audited_and_so_is_failing_to(
    sessions: PeopleSessions, system_database: Database, tenant: Tenant, join: Join
) -> None:
    person = await join(tenant)
    await sessions.sign_in(person.email, PASSWORD, client())
    with pytest.raises(InvalidLogin):
        await sessions.sign_in(person.email, "wrong", client())
    async with system_database.unit_of_work() as session:
        mine = select(AuditEvent.action).where(AuditEvent.target_name == person.email)
        actions = (await session.scalars(mine.order_by(AuditEvent.created_at))).all()
    assert actions == ["invitation.accepted", "session.opened", "login.failed"]
