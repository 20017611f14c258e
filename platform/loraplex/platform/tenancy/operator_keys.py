"""Operators' keys: made, changed, rotated and revoked, on role `system`. Commits nothing."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from sqlalchemy import Select, func, insert, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.database.clock import transaction_time
from loraplex.platform.database.pages import Keyset, Page, PageRequest
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.credentials import CredentialState
from loraplex.platform.tenancy.errors import KeyNotFound
from loraplex.platform.tenancy.key_lives import (
    mint,
    refuse_ended,
    refuse_unrotatable,
    replace,
    set_disabled,
)
from loraplex.platform.tenancy.key_rules import bounded_expiry
from loraplex.platform.tenancy.key_views import OperatorKeyView, audited
from loraplex.platform.tenancy.keys import KeyKind
from loraplex.platform.tenancy.models import OperatorKey
from loraplex.platform.tenancy.principals import OperatorPrincipal
from loraplex.platform.tenancy.scopes import OperatorRole

OLDEST_FIRST = Keyset("operator_keys", OperatorKey.created_at, OperatorKey.id)
COMMAND_LINE = OperatorPrincipal(None, None, "command line", OperatorRole.ADMIN)
"""Whoever holds the database's password is bounded by no key."""


@dataclass(frozen=True)
class OperatorKeys:
    """What admins do with operators' keys. A key's text is told once, when it is made."""

    secrets: SecretKeys

    async def create(
        self,
        session: AsyncSession,
        principal: OperatorPrincipal,
        actor: Actor,
        name: str,
        *,
        role: OperatorRole = OperatorRole.ADMIN,
        expires_at: datetime | None = None,
    ) -> tuple[OperatorKeyView, str]:
        """A new key of the principal's user, and its text.

        Raises ExceedsCreator, when it would outlive the principal's own key, and ExpiryInThePast.
        """
        made, text = await self._insert(
            session,
            name=name,
            role=role.value,
            user_id=principal.user_id,
            expires_at=await _within_own(session, principal, expires_at),
        )
        await _tell(session, actor, "created", None, made)
        return made, text

    async def page(self, session: AsyncSession, wanted: PageRequest) -> Page[OperatorKeyView]:
        """Every operator's key, ended ones too, oldest first; raises InvalidCursor."""
        page = await OLDEST_FIRST.page(session, _shown(), wanted)
        return page.map(lambda row: OperatorKeyView.of(*row))

    async def every(self, session: AsyncSession) -> list[OperatorKeyView]:
        """All operators' keys, oldest first."""
        ordered = _shown().order_by(OperatorKey.created_at, OperatorKey.id)
        return [OperatorKeyView.of(*row) for row in await session.execute(ordered)]

    async def get(self, session: AsyncSession, key_id: UUID) -> OperatorKeyView:
        """One key; raises KeyNotFound."""
        return (await _find(session, key_id))[1]

    async def change(
        self,
        session: AsyncSession,
        actor: Actor,
        key_id: UUID,
        *,
        name: str | None = None,
        is_disabled: bool | None = None,
    ) -> OperatorKeyView:
        """Change what is given; raises KeyNotFound, and KeyNotLive for a key that ended."""
        row, before = await _find(session, key_id, is_locked=True)
        refuse_ended(before)
        if name is not None:
            row.name = name
        if is_disabled is not None:
            set_disabled(row, is_disabled, await transaction_time(session))
        await session.flush()
        _, after = await _find(session, key_id)
        if after != before:
            await _tell(session, actor, _verb(before, after), before, after)
        return after

    async def rotate(
        self,
        session: AsyncSession,
        principal: OperatorPrincipal,
        actor: Actor,
        key_id: UUID,
        overlap: timedelta,
        expires_at: datetime | None = None,
    ) -> tuple[OperatorKeyView, str]:
        """A key of the same role, and its text; this one ends after `overlap`.

        Raises as `create` does, KeyNotFound and KeyNotLive.
        """
        row, before = await _find(session, key_id, is_locked=True)
        refuse_unrotatable(before)
        made, text = await self._insert(
            session,
            name=row.name,
            role=row.role,
            user_id=row.user_id,
            expires_at=await _within_own(session, principal, expires_at or row.expires_at),
        )
        replace(row, made.id, await transaction_time(session) + overlap)
        await session.flush()
        _, after = await _find(session, key_id)
        await _tell(session, actor, "rotated", before, after)
        return made, text

    async def revoke(self, session: AsyncSession, actor: Actor, key_id: UUID) -> None:
        """End a key, and its web sessions with it; raises KeyNotFound.

        A key that is revoked already keeps the time at which it was.
        """
        row, before = await _find(session, key_id, is_locked=True)
        if row.revoked_at is not None:
            return
        row.revoked_at = await transaction_time(session)
        await session.flush()
        _, after = await _find(session, key_id)
        await _tell(session, actor, "revoked", before, after)

    async def _insert(self, session: AsyncSession, **values: object) -> tuple[OperatorKeyView, str]:
        key_id, minted = uuid4(), mint(self.secrets, KeyKind.OPERATOR)
        row = {"id": key_id, **minted.stored, **values}
        await session.execute(insert(OperatorKey).inline().values(row))
        return await self.get(session, key_id), minted.text


def _shown() -> Select[OperatorKey, datetime]:
    return select(OperatorKey, func.now())


async def _find(
    session: AsyncSession, key_id: UUID, *, is_locked: bool = False
) -> tuple[OperatorKey, OperatorKeyView]:
    statement = _shown().where(OperatorKey.id == key_id)
    if is_locked:
        statement = statement.with_for_update(key_share=True)
    found = (await session.execute(statement)).one_or_none()
    if found is None:
        raise KeyNotFound(key_id)
    row, now = found
    return row, OperatorKeyView.of(row, now)


async def _within_own(
    session: AsyncSession, principal: OperatorPrincipal, wanted: datetime | None
) -> datetime | None:
    own = select(OperatorKey.expires_at).where(OperatorKey.id == principal.key_id)
    creators, now = (await session.execute(select(own.scalar_subquery(), func.now()))).one()
    return bounded_expiry(wanted, creators, now)


def _verb(before: OperatorKeyView, after: OperatorKeyView) -> str:
    if before.state is after.state:
        return "changed"
    return "disabled" if after.state is CredentialState.DISABLED else "enabled"


async def _tell(
    session: AsyncSession,
    actor: Actor,
    verb: str,
    before: OperatorKeyView | None,
    after: OperatorKeyView,
) -> None:
    await record(
        session,
        actor,
        f"operator_key.{verb}",
        tenant_id=None,
        target=Target("operator_key", after.id, after.name),
        before=None if before is None else audited(before),
        after=audited(after),
    )
