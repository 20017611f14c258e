"""Where a tenant's keys are read: each with the member it belongs to, and Postgres' time."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import Select, and_, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.database.pages import Keyset, Page, PageRequest
from loraplex.platform.people.models import Membership
from loraplex.platform.tenancy.errors import KeyNotFound, TooManyKeys
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.key_rules import bounded_expiry
from loraplex.platform.tenancy.key_views import ApiKeyView
from loraplex.platform.tenancy.models import ApiKey
from loraplex.platform.tenancy.principals import TenantPrincipal

MAX_KEYS = 1000
"""Of one tenant, at one time; ended ones do not count."""
OLDEST_FIRST = Keyset("keys", ApiKey.created_at, ApiKey.id)


async def page_of_keys(
    session: AsyncSession, tenant_id: TenantId, wanted: PageRequest
) -> Page[ApiKeyView]:
    """The tenant's keys, ended ones too, oldest first; raises InvalidCursor."""
    page = await OLDEST_FIRST.page(session, _shown(tenant_id), wanted)
    return page.map(lambda row: ApiKeyView.of(*row))


async def every_key(session: AsyncSession, tenant_id: TenantId) -> list[ApiKeyView]:
    """All of the tenant's keys, oldest first."""
    ordered = _shown(tenant_id).order_by(ApiKey.created_at, ApiKey.id)
    return [ApiKeyView.of(*row) for row in await session.execute(ordered)]


async def find_key(
    session: AsyncSession, tenant_id: TenantId, key_id: UUID, *, is_locked: bool = False
) -> tuple[ApiKey, ApiKeyView]:
    """A key's row and what it shows; raises KeyNotFound. Locked, nobody else changes it."""
    statement = _shown(tenant_id).where(ApiKey.id == key_id)
    if is_locked:
        # Not stronger: a request that refers to it may be admitted meanwhile.
        statement = statement.with_for_update(key_share=True, of=ApiKey)
    found = (await session.execute(statement)).one_or_none()
    if found is None:
        raise KeyNotFound(key_id)
    row, member, now = found
    return row, ApiKeyView.of(row, member, now)


async def hold_count(session: AsyncSession, tenant_id: TenantId) -> None:
    """Raise TooManyKeys at the limit.

    One transaction at a time passes, or two at once could pass the limit together.
    """
    lock = func.hashtextextended(f"keys/{tenant_id}", 0)
    await session.execute(select(func.pg_advisory_xact_lock(lock)))
    living = and_(
        ApiKey.tenant_id == tenant_id,
        ApiKey.revoked_at.is_(None),
        func.coalesce(ApiKey.expires_at > func.now(), True),
    )
    count = await session.scalar(select(func.count()).select_from(ApiKey).where(living))
    if count is not None and count >= MAX_KEYS:
        raise TooManyKeys(MAX_KEYS)


async def expiry_within_own(
    session: AsyncSession, principal: TenantPrincipal, wanted: datetime | None
) -> datetime | None:
    """When a key that the principal makes ends; raises as `bounded_expiry` does."""
    own = select(ApiKey.expires_at).where(
        ApiKey.tenant_id == principal.tenant_id, ApiKey.id == principal.key_id
    )
    creators, now = (await session.execute(select(own.scalar_subquery(), func.now()))).one()
    return bounded_expiry(wanted, creators, now)


def _shown(tenant_id: TenantId) -> Select[ApiKey, Membership, datetime]:
    member = and_(Membership.tenant_id == ApiKey.tenant_id, Membership.id == ApiKey.member_id)
    return (
        select(ApiKey, Membership, func.now())
        .outerjoin(Membership, member)
        .where(ApiKey.tenant_id == tenant_id)
    )
