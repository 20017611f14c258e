"""What operators do with people; and the first of them."""

import pytest
from sqlalchemy import update

from loraplex.platform.database.sessions import Database
from loraplex.platform.people.accepting import Accepting
from loraplex.platform.people.administration import PeopleAdministration
from loraplex.platform.people.errors import LastAdmin
from loraplex.platform.people.models import User
from loraplex.platform.tenancy.principals import OperatorRole
from tests.platform.people.conftest import PASSWORD, Person, client


@pytest.fixture
async def only_admin(operator: Person, system_database: Database) -> Person:
    """The one admin there is: those of other tests are operators no more."""
    async with system_database.unit_of_work() as session:
        others = update(User).where(User.id != operator.signed_in.user_id)
        await session.execute(others.values(operator_role=None, operator_role_source=None))
    return operator


async def test_the_last_admin_stays(
    only_admin: Person, administration: PeopleAdministration, system_database: Database
) -> None:
    async with system_database.unit_of_work() as session:
        user = await administration.find(session, only_admin.signed_in.user_id)
        with pytest.raises(LastAdmin):
            await administration.set_disabled(session, user, True)
        for role in (None, OperatorRole.ADMIN_VIEWER):
            with pytest.raises(LastAdmin):
                await administration.set_operator_role(session, user, role)


async def test_the_first_admin_follows_a_link_that_stays_the_same_until_then(
    only_admin: Person,
    administration: PeopleAdministration,
    accepting: Accepting,
    system_database: Database,
) -> None:
    async with system_database.unit_of_work() as session:
        assert await administration.invite_first_admin(session, None) is None
        everybody = update(User).values(operator_role=None, operator_role_source=None)
        await session.execute(everybody)
    async with system_database.unit_of_work() as session:
        token = await administration.invite_first_admin(session, "i.unknown")
        assert token is not None
        assert await administration.invite_first_admin(session, token) == token
    _, person = await accepting.accept(token, client(), password=PASSWORD)
    assert (person.email, person.operator_role) == ("admin@localhost", OperatorRole.ADMIN)
    async with system_database.unit_of_work() as session:
        assert await administration.invite_first_admin(session, token) is None
