"""Links that work once: to a role in a tenant, among the operators, or to a new password.

A link's token is told once, to whoever made it, and stored as a keyed hash. Commits nothing.
"""

import secrets
from datetime import timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, func, literal, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import load_only

from loraplex.platform.database.pages import Keyset, Page, PageRequest
from loraplex.platform.people.errors import NoSuchInvitation
from loraplex.platform.people.models import Invitation
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.principals import OperatorRole, Role

TOKEN_PREFIX = "i."  # noqa: S105 - a prefix
TOKEN_PURPOSE = "invitation"  # noqa: S105 - what a hash is derived for
TOKEN_BYTES = 32
LIFETIME = timedelta(days=7)
OLDEST_FIRST = Keyset("invitations", Invitation.created_at, Invitation.id)

SHOWN = load_only(
    Invitation.id,
    Invitation.tenant_id,
    Invitation.email,
    Invitation.role,
    Invitation.operator_role,
    Invitation.invited_by,
    Invitation.expires_at,
    Invitation.accepted_at,
    Invitation.revoked_at,
    Invitation.created_at,
)
"""What role `app` may read: everything but the token's hash."""


def link_path(token: str) -> str:
    """Where on the web a person follows an invitation. A fragment is sent to no server's log."""
    return f"/welcome#{token}"


class Invitations:
    """Makes, lists and withdraws links."""

    def __init__(self, secret_keys: SecretKeys) -> None:
        self._secrets = secret_keys

    def hashes(self, token: str) -> list[bytes]:
        """What the stored hash of a token may equal."""
        return self._secrets.macs(TOKEN_PURPOSE, token.encode())

    async def to_tenant(
        self, session: AsyncSession, tenant_id: TenantId, email: str, role: Role, invited_by: str
    ) -> tuple[Invitation, str]:
        """A link to a role in a tenant; it takes the place of an older one for the same person."""
        await session.execute(
            update(Invitation)
            .where(Invitation.tenant_id == tenant_id, Invitation.email == email, _is_open())
            .values(revoked_at=func.now())
        )
        return await self._made(
            session, tenant_id=tenant_id, email=email, role=role.value, invited_by=invited_by
        )

    async def to_operators(
        self, session: AsyncSession, email: str, role: OperatorRole, invited_by: str
    ) -> tuple[Invitation, str]:
        """A link to a place among the operators, on role `system`."""
        return await self._made(
            session, email=email, operator_role=role.value, invited_by=invited_by
        )

    async def to_password(
        self, session: AsyncSession, email: str, invited_by: str
    ) -> tuple[Invitation, str]:
        """A link to a new password for an account that exists, on role `system`."""
        return await self._made(session, email=email, invited_by=invited_by)

    async def open_page(
        self, session: AsyncSession, tenant_id: TenantId, wanted: PageRequest
    ) -> Page[Invitation]:
        """The tenant's links that still work, oldest first; raises InvalidCursor."""
        mine = (
            select(Invitation)
            .options(SHOWN)
            .where(Invitation.tenant_id == tenant_id, _is_open(), _is_young())
        )
        page = await OLDEST_FIRST.page(session, mine, wanted)
        return page.map(lambda row: row[0])

    async def withdraw(
        self, session: AsyncSession, tenant_id: TenantId, invitation_id: UUID
    ) -> Invitation:
        """End a link that nobody has followed; raises NoSuchInvitation."""
        mine = Invitation.tenant_id == tenant_id
        found = await session.scalar(
            select(Invitation)
            .options(SHOWN)
            .where(mine, Invitation.id == invitation_id, _is_open(), _is_young())
        )
        if found is None:
            raise NoSuchInvitation(invitation_id)
        withdrawn = await session.scalar(
            update(Invitation)
            .where(mine, Invitation.id == invitation_id, _is_open())
            .values(revoked_at=func.now())
            .returning(Invitation.id)
        )
        if withdrawn is None:  # somebody followed it, or withdrew it, in between
            raise NoSuchInvitation(invitation_id)
        return found

    async def works(self, session: AsyncSession, token: str) -> bool:
        """Whether a link has been neither followed nor withdrawn and is young enough."""
        mine = Invitation.token_hash.in_(self.hashes(token))
        found = select(Invitation.id).where(mine, _is_open(), _is_young())
        return await session.scalar(found) is not None

    async def _made(self, session: AsyncSession, **values: object) -> tuple[Invitation, str]:
        token = TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
        statement = (
            insert(Invitation)
            .values(
                token_hash=self._secrets.mac(TOKEN_PURPOSE, token.encode()),
                expires_at=func.now() + literal(LIFETIME),
                **values,
            )
            .returning(Invitation.id)
        )
        made = await session.scalar(statement)
        mine = select(Invitation).options(SHOWN).where(Invitation.id == made)
        return (await session.scalars(mine)).one(), token


def _is_open() -> ColumnElement[bool]:
    return Invitation.accepted_at.is_(None) & Invitation.revoked_at.is_(None)


def _is_young() -> ColumnElement[bool]:
    return Invitation.expires_at > func.now()
