"""What operators do with tenants and keys, on role `system`. Commits nothing: the caller does."""

import secrets
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.database.pages import Keyset, Page, PageRequest
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.errors import KeyNotFound, TenantNameTaken, TenantNotFound
from loraplex.platform.tenancy.keys import KEY_PURPOSE, KeyKind, label_of, new_key
from loraplex.platform.tenancy.models import ApiKey, OperatorKey, Tenant
from loraplex.platform.tenancy.names import check_tenant_name

MAX_CONCURRENT_REQUESTS = 64
MAX_STORAGE_BYTES = 50 * 1024**3
MAX_OPEN_UPLOADS = 16
NAMESPACE_BYTES = 16
TENANTS_BY_NAME = Keyset("tenants", Tenant.name)


class TenantAdministration:
    """Tenants and keys; a key's text is returned once, when it is made, and stored nowhere."""

    def __init__(self, secret_keys: SecretKeys) -> None:
        self._secrets = secret_keys

    async def create_tenant(
        self,
        session: AsyncSession,
        name: str,
        *,
        max_concurrent_requests: int = MAX_CONCURRENT_REQUESTS,
        max_storage_bytes: int = MAX_STORAGE_BYTES,
        max_open_uploads: int = MAX_OPEN_UPLOADS,
    ) -> Tenant:
        """A new active tenant; raises InvalidTenantName and TenantNameTaken."""
        statement = (
            insert(Tenant)
            .values(
                name=check_tenant_name(name),
                namespace=secrets.token_hex(NAMESPACE_BYTES),
                max_concurrent_requests=max_concurrent_requests,
                max_storage_bytes=max_storage_bytes,
                max_open_uploads=max_open_uploads,
            )
            .on_conflict_do_nothing(index_elements=[Tenant.name])
            .returning(Tenant)
        )
        tenant = await session.scalar(statement)
        if tenant is None:
            raise TenantNameTaken(name)
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
    ) -> tuple[ApiKey, str]:
        """A new key of a tenant, and its text."""
        text = new_key(KeyKind.TENANT)
        key = ApiKey(
            tenant_id=tenant.id,
            name=name,
            label=label_of(text),
            key_hash=self._hash(text),
            expires_at=expires_at,
        )
        session.add(key)
        await session.flush()
        return key, text

    async def create_operator_key(
        self, session: AsyncSession, name: str, *, expires_at: datetime | None = None
    ) -> tuple[OperatorKey, str]:
        """A new operator's key, and its text."""
        text = new_key(KeyKind.OPERATOR)
        key = OperatorKey(
            name=name, label=label_of(text), key_hash=self._hash(text), expires_at=expires_at
        )
        session.add(key)
        await session.flush()
        return key, text

    async def list_keys(self, session: AsyncSession, tenant: Tenant) -> Sequence[ApiKey]:
        """A tenant's keys, revoked ones too, oldest first."""
        mine = ApiKey.tenant_id == tenant.id
        return (await session.scalars(select(ApiKey).where(mine).order_by(ApiKey.created_at))).all()

    async def list_operator_keys(self, session: AsyncSession) -> Sequence[OperatorKey]:
        """Every operator's key, revoked ones too, oldest first."""
        return (await session.scalars(select(OperatorKey).order_by(OperatorKey.created_at))).all()

    async def revoke_key(self, session: AsyncSession, key_id: UUID) -> None:
        """End a key of either kind, and its web sessions with it; raises KeyNotFound.

        A key that is revoked already keeps the time at which it was.
        """
        for model in (ApiKey, OperatorKey):
            statement = (
                update(model)
                .where(model.id == key_id)
                .values(revoked_at=func.coalesce(model.revoked_at, func.now()))
                .returning(model.id)
            )
            if await session.scalar(statement) is not None:
                return
        raise KeyNotFound(key_id)

    def _hash(self, key: str) -> bytes:
        return self._secrets.mac(KEY_PURPOSE, key.encode())
