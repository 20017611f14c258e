"""Takes imports in, and tells how they go. Fetching is the background jobs' (`running`)."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.imports import endings, turns
from loraplex.adapters_registry.imports.errors import ImportNotFound, TooManyImports
from loraplex.adapters_registry.imports.models import OPEN, AdapterImport
from loraplex.adapters_registry.imports.sources import Source, encode
from loraplex.adapters_registry.imports.views import ImportView
from loraplex.adapters_registry.peft_config import MAX_CONFIG_BYTES
from loraplex.adapters_registry.uploads import quota
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.platform.admission.limits import limits_of
from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.database.pages import Keyset, Page, PageRequest
from loraplex.platform.outbound.rules import OutboundRules
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.principals import TenantPrincipal

SECRET_PURPOSE = "import-source"  # noqa: S105 - what the key is for
NEWEST_FIRST = Keyset("imports", AdapterImport.created_at, AdapterImport.id, descending=True)


@dataclass(frozen=True)
class Imports:
    """Imports of one gateway's base model."""

    uploads: Uploads
    secrets: SecretKeys
    rules: OutboundRules

    async def start(
        self,
        principal: TenantPrincipal,
        name: str,
        source: Source,
        actor: Actor = endings.OURSELVES,
    ) -> ImportView:
        """Queue an import into the adapter of this name, which is made when missing.

        The quota is reserved from here on, at first for what every adapter has. Raises
        InvalidAdapterName, BaseModelUnknown, InvalidSource, AddressInvalid, AddressNotPublic,
        TooManyImports, StorageQuotaExceeded.
        """
        source.check(self.rules)
        base = await self.uploads.base_for(name)
        row = AdapterImport(
            id=uuid4(),
            tenant_id=principal.tenant_id,
            adapter_name=name,
            base_name=base.name,
            source=source.shown(),
            sealed_source=self.secrets.encrypt(SECRET_PURPOSE, encode(source)),
            deadline_at=datetime.now(UTC) + timedelta(seconds=turns.QUEUE_SECONDS),
        )
        async with self.uploads.database.unit_of_work(principal.tenant_id) as session:
            await quota.lock(session, principal.tenant_id)
            await self._check_open(session, principal)
            await quota.reserve(session, principal.tenant_id, row.id, MAX_CONFIG_BYTES, lease=None)
            session.add(row)
            await session.flush()
            await turns.ask(session, row.tenant_id, row.id)
            await record(
                session,
                actor,
                "import.started",
                tenant_id=principal.tenant_id,
                target=Target("import", row.id, name),
                after={"kind": source.shown().get("kind")},
            )
            return ImportView.of(row)

    async def get(
        self, session: AsyncSession, principal: TenantPrincipal, import_id: UUID
    ) -> ImportView:
        """One import; raises ImportNotFound."""
        mine = (AdapterImport.tenant_id == principal.tenant_id) & (AdapterImport.id == import_id)
        row = await session.scalar(select(AdapterImport).where(mine))
        if row is None:
            raise ImportNotFound(str(import_id))
        return ImportView.of(row)

    async def page(
        self, session: AsyncSession, principal: TenantPrincipal, wanted: PageRequest
    ) -> Page[ImportView]:
        """The tenant's imports, newest first; raises InvalidCursor."""
        mine = select(AdapterImport).where(AdapterImport.tenant_id == principal.tenant_id)
        found = await NEWEST_FIRST.page(session, mine, wanted)
        return found.map(lambda row: ImportView.of(row[0]))

    async def _check_open(self, session: AsyncSession, principal: TenantPrincipal) -> None:
        tenant_id = principal.tenant_id
        limit = (await limits_of(session, tenant_id)).max_open_uploads
        count = select(func.count(AdapterImport.id)).where(
            AdapterImport.tenant_id == tenant_id, AdapterImport.status.in_(OPEN)
        )
        if limit is not None and (await session.scalar(count) or 0) >= limit:
            raise TooManyImports(limit)
