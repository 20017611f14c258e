"""What operators do with people, on role `system`. Commits nothing: the caller does."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.database.clock import transaction_time
from loraplex.platform.database.pages import Keyset, Page, PageRequest
from loraplex.platform.people.emails import check_email, normal_email
from loraplex.platform.people.errors import LastAdmin, PersonNotFound
from loraplex.platform.people.invitations import Invitations
from loraplex.platform.people.models import (
    Invitation,
    Membership,
    PersonSession,
    Source,
    User,
)
from loraplex.platform.tenancy.models import Tenant
from loraplex.platform.tenancy.principals import OperatorRole

FIRST_ADMIN = "admin@localhost"
"""Whom a new installation's first link is made out to."""
PEOPLE_BY_EMAIL = Keyset("people", User.email)


class PeopleAdministration:
    """People, whatever tenants they work for."""

    def __init__(self, invitations: Invitations) -> None:
        self._invitations = invitations

    async def page(self, session: AsyncSession, wanted: PageRequest) -> Page[User]:
        """Everybody, by e-mail; raises InvalidCursor."""
        page = await PEOPLE_BY_EMAIL.page(session, select(User), wanted)
        return page.map(lambda row: row[0])

    async def find(self, session: AsyncSession, user_id: UUID) -> User:
        """One person; raises PersonNotFound."""
        user = await session.get(User, user_id, populate_existing=True)
        if user is None:
            raise PersonNotFound(user_id)
        return user

    async def find_by_email(self, session: AsyncSession, email: str) -> User:
        """One person; raises PersonNotFound."""
        user = await session.scalar(select(User).where(User.email == normal_email(email)))
        if user is None:
            raise PersonNotFound(email[:64])
        return user

    async def memberships(
        self, session: AsyncSession, user_ids: Sequence[UUID]
    ) -> dict[UUID, list[tuple[str, str]]]:
        """Where people are members: tenants' names with roles, by name."""
        rows = await session.execute(
            select(Membership.user_id, Tenant.name, Membership.role)
            .join(Tenant, Tenant.id == Membership.tenant_id)
            .where(Membership.user_id.in_(user_ids), Membership.ended_at.is_(None))
            .order_by(Tenant.name)
        )
        found: dict[UUID, list[tuple[str, str]]] = {user_id: [] for user_id in user_ids}
        for user_id, tenant, role in rows:
            if user_id is not None:
                found[user_id].append((tenant, role))
        return found

    async def invite_operator(
        self, session: AsyncSession, email: str, role: OperatorRole, invited_by: str
    ) -> tuple[Invitation, str]:
        """A link to a place among the operators, and its token; raises InvalidEmail."""
        return await self._invitations.to_operators(session, check_email(email), role, invited_by)

    async def reset_password(
        self, session: AsyncSession, user: User, invited_by: str
    ) -> tuple[Invitation, str]:
        """A link to a new password, and its token. The old one works until the link is followed."""
        return await self._invitations.to_password(session, user.email, invited_by)

    async def set_disabled(self, session: AsyncSession, user: User, is_disabled: bool) -> None:
        """Refuse somebody everywhere, and end their sessions; or let them in again.

        Raises LastAdmin.
        """
        if is_disabled and user.disabled_at is None:
            await self._keep_an_admin(session, user)
            user.disabled_at = await transaction_time(session)
            await session.execute(delete(PersonSession).where(PersonSession.user_id == user.id))
        elif not is_disabled:
            user.disabled_at = None
        await session.flush()

    async def set_operator_role(
        self, session: AsyncSession, user: User, role: OperatorRole | None
    ) -> None:
        """Make somebody an operator, another kind of one, or none; raises LastAdmin."""
        if role is not OperatorRole.ADMIN:
            await self._keep_an_admin(session, user)
        user.operator_role = None if role is None else role.value
        user.operator_role_source = None if role is None else Source.OPERATOR.value
        if role is None:
            outside = PersonSession.tenant_id.is_(None)
            mine = PersonSession.user_id == user.id
            await session.execute(delete(PersonSession).where(mine, outside))
        await session.flush()

    async def has_admin(self, session: AsyncSession) -> bool:
        """Whether somebody administers the platform."""
        admins = select(User.id).where(
            User.operator_role == OperatorRole.ADMIN.value, User.disabled_at.is_(None)
        )
        return await session.scalar(admins.limit(1)) is not None

    async def invite_first_admin(
        self, session: AsyncSession, known_token: str | None
    ) -> str | None:
        """The token of a link to be the first admin; None once there is one.

        `known_token`, an earlier answer, stays the answer while its link works. No password is
        ever given out: whoever follows the link chooses one.
        """
        if await self.has_admin(session):
            return None
        if known_token is not None and await self._invitations.works(session, known_token):
            return known_token
        made, token = await self._invitations.to_operators(
            session, FIRST_ADMIN, OperatorRole.ADMIN, "loraplex serve"
        )
        await record(
            session,
            Actor.system("setup"),
            "operator.invited",
            tenant_id=None,
            target=Target("invitation", made.id, made.email),
            after={"operator_role": OperatorRole.ADMIN.value},
        )
        return token

    async def _keep_an_admin(self, session: AsyncSession, leaving: User) -> None:
        if leaving.operator_role != OperatorRole.ADMIN or leaving.disabled_at is not None:
            return
        admins = (
            select(User.id)
            .where(User.operator_role == OperatorRole.ADMIN.value, User.disabled_at.is_(None))
            .order_by(User.id)
            .with_for_update()
        )
        if not set((await session.scalars(admins)).all()) - {leaving.id}:
            raise LastAdmin
