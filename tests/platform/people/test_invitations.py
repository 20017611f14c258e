import asyncio
from uuid import uuid4

import pytest
from sqlalchemy import func, update

from loraplex.platform.database.pages import FIRST_PAGE
from loraplex.platform.database.sessions import Database
from loraplex.platform.people.accepting import Accepting
from loraplex.platform.people.administration import PeopleAdministration
from loraplex.platform.people.emails import check_email
from loraplex.platform.people.errors import (
    InvalidEmail,
    InvalidLogin,
    InvitationNotFound,
    NoSuchInvitation,
    NotTheInvited,
    PasswordWanted,
    WeakPassword,
)
from loraplex.platform.people.invitations import Invitations
from loraplex.platform.people.models import Invitation
from loraplex.platform.people.sessions import PeopleSessions
from loraplex.platform.tenancy.errors import InvalidSession
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import Tenant, TenantState
from loraplex.platform.tenancy.principals import Role
from tests.platform.people.conftest import PASSWORD, Invite, Join, Person, client


@pytest.fixture
def email() -> str:
    return f"{uuid4().hex}@example.com"


async def test_a_link_works_once(
    accepting: Accepting, tenant: Tenant, invite: Invite, email: str
) -> None:
    token = await invite(tenant, email, Role.ADMIN)
    offer = await accepting.look(token)
    assert (offer.email, offer.tenant_name, offer.role) == (email, tenant.name, Role.ADMIN)
    assert not offer.has_account
    _, person = await accepting.accept(token, client(), password=PASSWORD, display_name="Ada")
    assert person.place is not None
    assert (person.display_name, person.place.role) == ("Ada", Role.ADMIN)
    with pytest.raises(InvitationNotFound):
        await accepting.accept(token, client(), password=PASSWORD)
    with pytest.raises(InvitationNotFound):
        await accepting.look(token)


async def test_a_link_followed_twice_at_once_lets_one_in(
    accepting: Accepting, tenant: Tenant, invite: Invite, email: str
) -> None:
    token = await invite(tenant, email)
    answers = await asyncio.gather(
        *(accepting.accept(token, client(), password=PASSWORD) for _ in range(4)),
        return_exceptions=True,
    )
    assert sum(isinstance(answer, InvitationNotFound) for answer in answers) == 3


async def test_somebody_new_must_choose_a_good_password(
    accepting: Accepting, tenant: Tenant, invite: Invite, email: str
) -> None:
    token = await invite(tenant, email)
    with pytest.raises(PasswordWanted):
        await accepting.accept(token, client())
    with pytest.raises(WeakPassword):
        await accepting.accept(token, client(), password=email)
    await accepting.accept(token, client(), password=PASSWORD)


async def test_whoever_holds_a_link_is_not_thereby_the_one_it_names(
    accepting: Accepting,
    sessions: PeopleSessions,
    tenant: Tenant,
    other_tenant: Tenant,
    invite: Invite,
    join: Join,
) -> None:
    victim, thief = await join(tenant), await join(other_tenant, Role.OWNER)
    token = await invite(other_tenant, victim.email)
    for wrong in (
        {"password": "a password of the thief's"},
        {"session_token": thief.token},
        {"session_token": "p.nonsense"},
        {},
    ):
        with pytest.raises(NotTheInvited):
            await accepting.accept(token, client(), **wrong)
    assert (await sessions.sign_in(victim.email, PASSWORD, client()))[0]
    _, person = await accepting.accept(token, client(), password=PASSWORD)
    assert person.place is not None
    assert person.place.tenant_name == other_tenant.name


@pytest.mark.parametrize("how", ["withdrawn", "replaced", "old", "tenant suspended"])
async def test_a_link_that_ended_leads_nowhere(
    how: str,
    accepting: Accepting,
    invitations: Invitations,
    database: Database,
    system_database: Database,
    tenant: Tenant,
    invite: Invite,
    email: str,
) -> None:
    token = await invite(tenant, email)
    tenant_id = TenantId(tenant.id)
    async with database.unit_of_work(tenant_id) as session:
        (made,) = (await invitations.open_page(session, tenant_id, FIRST_PAGE)).items
    if how == "withdrawn":
        for _ in range(2):
            try:
                async with database.unit_of_work(tenant_id) as session:
                    await invitations.withdraw(session, tenant_id, made.id)
            except NoSuchInvitation:
                break
        else:
            pytest.fail("withdrawn twice")
    elif how == "replaced":
        await invite(tenant, email)
    async with system_database.unit_of_work() as session:
        if how == "old":
            await session.execute(update(Invitation).values(expires_at=func.now()))
        if how == "tenant suspended":
            mine = update(Tenant).where(Tenant.id == tenant.id)
            await session.execute(mine.values(state=TenantState.SUSPENDED))
    with pytest.raises(InvitationNotFound):
        await accepting.accept(token, client(), password=PASSWORD)


async def test_a_tenant_sees_and_withdraws_its_own_links_alone(
    invitations: Invitations,
    database: Database,
    tenant: Tenant,
    other_tenant: Tenant,
    invite: Invite,
    email: str,
) -> None:
    await invite(tenant, email)
    async with database.unit_of_work(TenantId(tenant.id)) as session:
        page = await invitations.open_page(session, TenantId(tenant.id), FIRST_PAGE)
    (made,) = page.items
    assert (made.email, made.role, made.invited_by) == (email, "developer", "test")
    other = TenantId(other_tenant.id)
    async with database.unit_of_work(other) as session:
        assert (await invitations.open_page(session, other, FIRST_PAGE)).items == []
    with pytest.raises(NoSuchInvitation):
        async with database.unit_of_work(other) as session:
            await invitations.withdraw(session, other, made.id)


async def test_a_link_to_a_new_password_ends_the_old_one_and_its_sessions(
    accepting: Accepting,
    administration: PeopleAdministration,
    sessions: PeopleSessions,
    system_database: Database,
    tenant: Tenant,
    join: Join,
) -> None:
    person = await join(tenant)
    async with system_database.unit_of_work() as session:
        user = await administration.find_by_email(session, person.email)
        _, token = await administration.reset_password(session, user, "test")
    await sessions.find(person.token)
    _, again = await accepting.accept(token, client(), password="another password")
    assert again.user_id == person.signed_in.user_id
    with pytest.raises(InvalidSession):
        await sessions.find(person.token)
    with pytest.raises(InvalidLogin):
        await sessions.sign_in(person.email, PASSWORD, client())
    await sessions.sign_in(person.email, "another password", client())


async def test_an_operators_link_makes_an_operator(operator: Person) -> None:
    assert operator.signed_in.operator_role == "admin"
    assert operator.signed_in.place is None


@pytest.mark.parametrize("text", ["", "ada", "ada@", "@example.com", "a b@example.com", "a@b@c.d"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidEmail):
        check_email(text)


def test_an_address_is_compared_in_lower_case() -> None:
    assert check_email(" Ada@Example.COM ") == "ada@example.com"
