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

    `model` is what the client asked for; `outcome` how the request ended (a finish reason, or a
    failure's code). `prompt_tokens` include `cached_tokens`.
    """

    request_id: str
    model: str
    adapter_digest: Digest | None
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    outcome: str
    admitted_at: datetime


async def record(
    session: AsyncSession, tenant_id: TenantId, api_key_id: UUID, usage: Usage
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
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            output_tokens=usage.output_tokens,
            outcome=usage.outcome,
            admitted_at=usage.admitted_at,
        )
        .on_conflict_do_nothing()
    )
