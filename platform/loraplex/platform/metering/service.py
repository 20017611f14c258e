"""Writes the ledger: what a request used and costs, once."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.engine.protocol.identity import Digest
from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.metering.prices import Price
from loraplex.platform.tenancy.identity import TenantId


class SettledBy(StrEnum):
    GATEWAY = "gateway"
    RECOVERY = "recovery"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one request used, all its choices together.

    `model` is what the client asked for, `base_model` what served it; `price` the one in force at
    admission; `outcome` how the request ended, and `error_code` which failure ended it, if one
    did. `prompt_tokens` include `cached_tokens`. Times are milliseconds: waiting for a place in
    the batch, until the first token, and until the end, all since admission.
    """

    request_id: str
    model: str
    price: Price
    adapter_digest: Digest | None
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    outcome: str
    admitted_at: datetime
    base_model: str | None = None
    adapter_id: UUID | None = None
    adapter_version: int | None = None
    error_code: str | None = None
    worker_id: str | None = None
    queue_ms: int | None = None
    ttft_ms: int | None = None
    duration_ms: int | None = None
    settled_by: SettledBy = SettledBy.GATEWAY

    @property
    def cost_micros(self) -> int:
        return self.price.cost(self.prompt_tokens, self.cached_tokens, self.output_tokens)


def entry_of(
    usage: Usage, *, api_key_id: UUID | None, member_id: UUID | None = None
) -> dict[str, object]:
    """The request's ledger row by column, but for the tenant and the time of writing."""
    return {
        "request_id": usage.request_id,
        "api_key_id": api_key_id,
        "member_id": member_id,
        "model": usage.model,
        "base_model": usage.base_model,
        "adapter_digest": usage.adapter_digest,
        "adapter_id": usage.adapter_id,
        "adapter_version": usage.adapter_version,
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "price_id": usage.price.id,
        "cost_micros": usage.cost_micros,
        "outcome": usage.outcome,
        "error_code": usage.error_code,
        "worker_id": usage.worker_id,
        "queue_ms": usage.queue_ms,
        "ttft_ms": usage.ttft_ms,
        "duration_ms": usage.duration_ms,
        "settled_by": usage.settled_by,
        "admitted_at": usage.admitted_at,
    }


async def record(
    session: AsyncSession,
    tenant_id: TenantId,
    usage: Usage,
    *,
    api_key_id: UUID | None,
    member_id: UUID | None = None,
) -> bool:
    """Write the request's ledger row; a second time changes nothing. Whether it was the first."""
    statement = (
        insert(LedgerEntry)
        .values(tenant_id=tenant_id, **entry_of(usage, api_key_id=api_key_id, member_id=member_id))
        .on_conflict_do_nothing()
        .returning(LedgerEntry.request_id)
    )
    return await session.scalar(statement) is not None
