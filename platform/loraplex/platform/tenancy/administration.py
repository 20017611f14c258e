"""What operators do with tenants and keys, on role `system`. Commits nothing: the caller does."""

import secrets
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.database.pages import Keyset, Page, PageRequest
from loraplex.platform.lifecycle.models import FormerTenantName
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.acting import acting_for
from loraplex.platform.tenancy.api_keys import ApiKeys
from loraplex.platform.tenancy.errors import TenantNameTaken, TenantNotFound
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.key_rows import every_key
from loraplex.platform.tenancy.key_rules import KeyDraft
from loraplex.platform.tenancy.key_views import ApiKeyView, OperatorKeyView
from loraplex.platform.tenancy.models import ApiKey, Tenant
from loraplex.platform.tenancy.names import check_tenant_name
from loraplex.platform.tenancy.operator_keys import COMMAND_LINE, OperatorKeys
from loraplex.platform.tenancy.principals import Role, TenantPrincipal

MAX_CONCURRENT_REQUESTS = 64
MAX_STORAGE_BYTES = 50 * 1024**3
MAX_OPEN_UPLOADS = 16
NAMESPACE_BYTES = 16
NAME_PURPOSE = "tenant-name"
"""What the hash of a deleted tenant's name is derived for."""
SETUP = Actor.system("setup")
TENANTS_BY_NAME = Keyset("tenants", Tenant.name)


class TenantAdministration:
    """Tenants and keys; a key's text is returned once, when it is made, and stored nowhere."""

    def __init__(self, secret_keys: SecretKeys) -> None:
        self._secrets = secret_keys
        self.keys = ApiKeys(secret_keys)
        self.operator_keys = OperatorKeys(secret_keys)

    async def create_tenant(
        self,
        session: AsyncSession,
        name: str,
        *,
        display_name: str = "",
        max_concurrent_requests: int = MAX_CONCURRENT_REQUESTS,
        max_storage_bytes: int = MAX_STORAGE_BYTES,
        max_open_uploads: int = MAX_OPEN_UPLOADS,
        actor: Actor = SETUP,
    ) -> Tenant:
        """A new active tenant, recorded; raises InvalidTenantName and TenantNameTaken.

        A deleted tenant's name stays taken: who still writes to it must not reach somebody else.
        """
        former = FormerTenantName.name_mac.in_(self._secrets.macs(NAME_PURPOSE, name.encode()))
        if await session.scalar(select(FormerTenantName.name_mac).where(former)) is not None:
            raise TenantNameTaken(name)
        chosen: dict[str, object] = {
            "name": check_tenant_name(name),
            "display_name": display_name,
            "max_concurrent_requests": max_concurrent_requests,
            "max_storage_bytes": max_storage_bytes,
            "max_open_uploads": max_open_uploads,
        }
        statement = (
            insert(Tenant)
            .values(namespace=secrets.token_hex(NAMESPACE_BYTES), **chosen)
            .on_conflict_do_nothing(index_elements=[Tenant.name])
            .returning(Tenant)
        )
        tenant = await session.scalar(statement)
        if tenant is None:
            raise TenantNameTaken(name)
        await record(
            session,
            actor,
            "tenant.created",
            tenant_id=TenantId(tenant.id),
            target=Target("tenant", tenant.id, name),
            after=chosen,
        )
        return tenant

    async def find_tenant(self, session: AsyncSession, name: str) -> Tenant:
        """The tenant of this name; raises TenantNotFound."""
        tenant = await session.scalar(select(Tenant).where(Tenant.name == name))
        if tenant is None:
            raise TenantNotFound(name[:64])
        return tenant

    async def list_tenants(self, session: AsyncSession) -> Sequence[Tenant]:
        """Every tenant, by name."""
        return (await session.scalars(select(Tenant).order_by(Tenant.name))).all()

    async def page_of_tenants(self, session: AsyncSession, wanted: PageRequest) -> Page[Tenant]:
        """Tenants by name, a page of them; raises InvalidCursor."""
        page = await TENANTS_BY_NAME.page(session, select(Tenant), wanted)
        return page.map(lambda row: row[0])

    async def create_key(
        self,
        session: AsyncSession,
        tenant: Tenant,
        name: str,
        *,
        expires_at: datetime | None = None,
        actor: Actor = SETUP,
    ) -> tuple[ApiKeyView, str]:
        """A new key of a tenant, of its owners' scopes, and its text."""
        draft = KeyDraft(name, scopes=None, expires_at=expires_at)
        return await self.keys.create(session, owner_of(tenant), actor, draft)

    async def create_operator_key(
        self,
        session: AsyncSession,
        name: str,
        *,
        expires_at: datetime | None = None,
        actor: Actor = SETUP,
    ) -> tuple[OperatorKeyView, str]:
        """A new admin's key, and its text."""
        return await self.operator_keys.create(
            session, COMMAND_LINE, actor, name, expires_at=expires_at
        )

    async def list_keys(self, session: AsyncSession, tenant: Tenant) -> list[ApiKeyView]:
        """A tenant's keys, ended ones too, oldest first."""
        return await every_key(session, TenantId(tenant.id))

    async def list_operator_keys(self, session: AsyncSession) -> list[OperatorKeyView]:
        """Every operator's key, ended ones too, oldest first."""
        return await self.operator_keys.every(session)

    async def revoke_key(
        self, session: AsyncSession, key_id: UUID, *, actor: Actor = SETUP
    ) -> None:
        """End a key of either kind, and its web sessions with it; raises KeyNotFound."""
        tenant = await self.tenant_of(session, key_id)
        if tenant is None:
            await self.operator_keys.revoke(session, actor, key_id)
        else:
            await self.keys.revoke(session, owner_of(tenant), actor, key_id)

    async def tenant_of(self, session: AsyncSession, key_id: UUID) -> Tenant | None:
        """Whose key has this id; None: no tenant's."""
        mine = select(Tenant).join(ApiKey, ApiKey.tenant_id == Tenant.id)
        return await session.scalar(mine.where(ApiKey.id == key_id))


def owner_of(tenant: Tenant) -> TenantPrincipal:
    """Whom an operator stands for who works on a tenant's keys."""
    return acting_for(tenant, Role.OWNER, "an operator")
