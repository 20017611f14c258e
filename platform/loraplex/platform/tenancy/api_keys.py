"""A tenant's keys: made, changed, rotated and revoked. Commits nothing: the caller does.

Works on role `app` for the tenant of its unit of work, and on `system` for any. Whoever acts needs
the scope already; what is decided here is how far it goes (`key_rules`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.database.clock import transaction_time
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.credentials import CredentialState
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.key_lives import (
    mint,
    refuse_ended,
    refuse_unrotatable,
    replace,
    set_disabled,
)
from loraplex.platform.tenancy.key_rows import expiry_within_own, find_key, hold_count
from loraplex.platform.tenancy.key_rules import (
    KeyDraft,
    Models,
    check_holds,
    check_manages,
    check_models,
    check_scopes,
)
from loraplex.platform.tenancy.key_views import ApiKeyView, audited
from loraplex.platform.tenancy.keys import KeyKind
from loraplex.platform.tenancy.models import ApiKey
from loraplex.platform.tenancy.principals import TenantPrincipal
from loraplex.platform.tenancy.scopes import SCOPES_OF
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.events import emit


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """What is to be different; None leaves it as it is."""

    name: str | None = None
    models: tuple[Models] | None = None
    is_disabled: bool | None = None


@dataclass(frozen=True)
class ApiKeys:
    """What a tenant does with its keys. A key's text is told once, when it is made."""

    secrets: SecretKeys

    async def create(
        self, session: AsyncSession, principal: TenantPrincipal, actor: Actor, draft: KeyDraft
    ) -> tuple[ApiKeyView, str]:
        """A new key of the principal's member, and its text.

        Raises ExceedsCreator, ExpiryInThePast and TooManyKeys.
        """
        role = draft.role or principal.role
        check_scopes(principal, SCOPES_OF[role] if draft.scopes is None else draft.scopes)
        check_models(principal, draft.models)
        await hold_count(session, principal.tenant_id)
        expires_at = await expiry_within_own(session, principal, draft.expires_at)
        made, text = await self._insert(
            session,
            tenant_id=principal.tenant_id,
            member_id=principal.member_id,
            role=role.value,
            name=draft.name,
            scopes=None if draft.scopes is None else sorted(draft.scopes),
            models=None if draft.models is None else sorted(draft.models),
            expires_at=expires_at,
        )
        await _tell(session, actor, principal.tenant_id, EventType.KEY_CREATED, None, made)
        return made, text

    async def change(
        self,
        session: AsyncSession,
        principal: TenantPrincipal,
        actor: Actor,
        key_id: UUID,
        changes: KeyChanges,
    ) -> ApiKeyView:
        """Raises KeyNotFound, KeyNotYours, ExceedsCreator, and KeyNotLive for a key that ended."""
        row, before = await find_key(session, principal.tenant_id, key_id, is_locked=True)
        check_manages(principal, before)
        refuse_ended(before)
        if changes.name is not None:
            row.name = changes.name
        if changes.models is not None:
            (models,) = changes.models
            check_models(principal, models)
            row.models = None if models is None else sorted(models)
        if changes.is_disabled is not None:
            set_disabled(row, changes.is_disabled, await transaction_time(session))
        await session.flush()
        _, after = await find_key(session, principal.tenant_id, key_id)
        if after != before:
            await _tell(session, actor, principal.tenant_id, _kind(before, after), before, after)
        return after

    async def rotate(
        self,
        session: AsyncSession,
        principal: TenantPrincipal,
        actor: Actor,
        key_id: UUID,
        overlap: timedelta,
        expires_at: datetime | None = None,
    ) -> tuple[ApiKeyView, str]:
        """A key that may what this one may, and its text; this one ends after `overlap`.

        The new one ends when the old one would have, or at `expires_at`. Raises KeyNotFound,
        KeyNotYours, ExceedsCreator, ExpiryInThePast, and KeyNotLive for a key that is disabled, has
        ended or has been rotated before.
        """
        row, before = await find_key(session, principal.tenant_id, key_id, is_locked=True)
        check_holds(principal, before)
        refuse_unrotatable(before)
        made, text = await self._insert(
            session,
            tenant_id=principal.tenant_id,
            member_id=row.member_id,
            role=row.role,
            name=row.name,
            scopes=row.scopes,
            models=row.models,
            expires_at=await expiry_within_own(session, principal, expires_at or row.expires_at),
        )
        ends_at = replace(row, made.id, await transaction_time(session) + overlap)
        await session.flush()
        told = {"replaced_by": str(made.id), "ends_at": ends_at.isoformat()}
        _, after = await find_key(session, principal.tenant_id, key_id)
        await _tell(session, actor, principal.tenant_id, EventType.KEY_ROTATED, before, after, told)
        return made, text

    async def revoke(
        self, session: AsyncSession, principal: TenantPrincipal, actor: Actor, key_id: UUID
    ) -> None:
        """End a key, and its web sessions with it; raises KeyNotFound and KeyNotYours.

        A key that is revoked already keeps the time at which it was.
        """
        row, before = await find_key(session, principal.tenant_id, key_id, is_locked=True)
        check_manages(principal, before)
        if row.revoked_at is not None:
            return
        row.revoked_at = await transaction_time(session)
        await session.flush()
        _, after = await find_key(session, principal.tenant_id, key_id)
        await _tell(session, actor, principal.tenant_id, EventType.KEY_REVOKED, before, after)

    async def _insert(
        self, session: AsyncSession, *, tenant_id: TenantId, **values: object
    ) -> tuple[ApiKeyView, str]:
        key_id, minted = uuid4(), mint(self.secrets, KeyKind.TENANT)
        row = {"id": key_id, "tenant_id": tenant_id, **minted.stored, **values}
        await session.execute(insert(ApiKey).inline().values(row))
        return (await find_key(session, tenant_id, key_id))[1], minted.text


def _kind(before: ApiKeyView, after: ApiKeyView) -> EventType | None:
    if before.state is after.state:
        return None
    is_disabled = after.state is CredentialState.DISABLED
    return EventType.KEY_DISABLED if is_disabled else EventType.KEY_ENABLED


async def _tell(
    session: AsyncSession,
    actor: Actor,
    tenant_id: TenantId,
    event: EventType | None,
    before: ApiKeyView | None,
    after: ApiKeyView,
    details: Mapping[str, object] = {},
) -> None:
    """Audit what was done, and tell the tenant's webhooks where there is an event for it."""
    action = "changed" if event is None else event.value.removeprefix("key.")
    await record(
        session,
        actor,
        f"api_key.{action}",
        tenant_id=tenant_id,
        target=Target("api_key", after.id, after.name),
        before=None if before is None else audited(before),
        after={**audited(after), **details},
    )
    if event is not None:
        told = {"key_id": str(after.id), "name": after.name, "label": after.label}
        await emit(session, tenant_id, event, {**told, **details})
