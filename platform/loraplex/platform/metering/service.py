"""Writes the ledger: what a request used, once."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.engine.protocol.identity import Digest
from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.tenancy.identity import TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one request used, all its choices together.

    `model` is what the client asked for; `outcome` how the request ended, and `error_code` which
    failure ended it, if one did. `prompt_tokens` include `cached_tokens`.
    """

    request_id: str
    model: str
    adapter_digest: Digest | None
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    outcome: str
    admitted_at: datetime
    adapter_id: UUID | None = None
    adapter_version: int | None = None
    error_code: str | None = None


async def record(
    session: AsyncSession, tenant_id: TenantId, api_key_id: UUID | None, usage: Usage
) -> None:
    """Write the request's ledger row; a second time changes nothing."""
    await session.execute(
        insert(LedgerEntry)
        .values(
            tenant_id=tenant_id,
            request_id=usage.request_id,
            api_key_id=api_key_id,
            model=usage.model,
            adapter_digest=usage.adapter_digest,
            adapter_id=usage.adapter_id,
            adapter_version=usage.adapter_version,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            output_tokens=usage.output_tokens,
            outcome=usage.outcome,
            error_code=usage.error_code,
            admitted_at=usage.admitted_at,
        )
        .on_conflict_do_nothing()
    )
