"""What a tenant has used and what it costs: in buckets, request by request, and as files."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.versions.labels import names_of
from loraplex.api.authentication import requires
from loraplex.api.csv_files import CsvAnswer, csv_answers, lines, model_rows
from loraplex.api.documentation import PROBLEM
from loraplex.api.services import ServicesDep
from loraplex.api.usage_answers import (
    adapters_in,
    by_bucket,
    result,
    storage_of,
    total_of,
)
from loraplex.api.usage_queries import filter_of, page_of_buckets, usage_query, whole_period
from loraplex.api.usage_schemas import (
    Period,
    RequestsExportParameters,
    RequestsParameters,
    SettledRequest,
    SettledRequestList,
    Usage,
    UsageBucket,
    UsageExportParameters,
    UsageParameters,
)
from loraplex.platform.database.pages import PageRequest
from loraplex.platform.metering.buckets import BucketWidth
from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.metering.pricing import currency_of
from loraplex.platform.metering.requests import (
    LedgerQuery,
    RowKey,
    newest_requests,
    refuse_too_many,
    requests_after,
)
from loraplex.platform.metering.usage import Stored, Used, stored, used
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.principals import Scope, TenantPrincipal

router = APIRouter(prefix="/api/v1/usage", tags=["usage"], responses=PROBLEM)
UsageReaderDep = Annotated[TenantPrincipal, Depends(requires(Scope.USAGE_READ))]

BLOCK_ROWS = 2000
"""Rows of an export that are read in one transaction."""
USAGE_COLUMNS = (
    *("api_key_id", "member_id", "model", "adapter_id", "adapter", "version", "requests"),
    *("prompt_tokens", "uncached_tokens", "cached_tokens", "output_tokens"),
)


@router.get("", operation_id="getUsage", summary="Usage in buckets")
async def get_usage(
    wanted: Annotated[UsageParameters, Query()], services: ServicesDep, principal: UsageReaderDep
) -> Usage:
    """Tokens, requests, storage and their cost, in whole buckets of UTC.

    A request counts in the bucket in which it was settled, as soon as it is.
    """
    now = datetime.now(UTC)
    page = page_of_buckets(wanted, wanted.bucket_width, now, wanted.limit, wanted.cursor)
    async with services.database.unit_of_work(principal.tenant_id) as session:
        query = await usage_query(session, services, wanted, page, [principal.tenant_id])
        rows, kept = await used(session, query), await stored(session, query)
        adapters = await names_of(session, adapters_in(rows))
        currency = await currency_of(session)
    knows_storage = query.knows_storage
    of_requests, of_storage = by_bucket(rows), by_bucket(kept)
    return Usage(
        bucket_width=page.width,
        start=page.period_start,
        end=page.period_end,
        group_by=wanted.group_by,
        currency=currency,
        data=[
            UsageBucket(
                start=start,
                end=start + page.width.length,
                results=[result(row, adapters) for row in of_requests.get(start, ())],
                storage=storage_of(of_storage.get(start, ())) if knows_storage else None,
            )
            for start in page.buckets()
        ],
        total=total_of(rows, storage_of(kept) if knows_storage else None),
        next_cursor=page.next_cursor,
    )


@router.get(
    "/export",
    operation_id="exportUsage",
    summary="Usage in buckets, as CSV",
    response_class=CsvAnswer,
    status_code=200,
    responses=csv_answers("A line a bucket and group, and one for the storage of a bucket."),
)
async def export_usage(
    wanted: Annotated[UsageExportParameters, Query()],
    services: ServicesDep,
    principal: UsageReaderDep,
) -> CsvAnswer:
    """Every bucket of the period that has any usage, or a refusal; never a part."""
    page = whole_period(wanted, wanted.bucket_width, datetime.now(UTC))
    async with services.database.unit_of_work(principal.tenant_id) as session:
        query = await usage_query(session, services, wanted, page, [principal.tenant_id])
        rows, kept = await used(session, query), await stored(session, query)
        adapters = await names_of(session, adapters_in(rows))
        currency = await currency_of(session)

    async def blocks() -> AsyncIterator[str]:
        head = ("start", "end", "kind", *USAGE_COLUMNS, "byte_seconds", "cost_micros", "currency")
        yield lines([head])
        for first in range(0, len(rows), BLOCK_ROWS):
            yield lines(
                [*_span(row, page.width), "requests", *cells, None, row.cost_micros, currency]
                for row in rows[first : first + BLOCK_ROWS]
                for cells in model_rows([result(row, adapters)], USAGE_COLUMNS)
            )
        nothing = [None] * len(USAGE_COLUMNS)
        yield lines(
            (*_span(row, page.width), "storage", *nothing, *_amounts(row), currency) for row in kept
        )

    return CsvAnswer(blocks(), f"usage-{page.start:%Y%m%d}-{page.end:%Y%m%d}.csv")


@router.get("/requests", operation_id="listSettledRequests", summary="Requests, one by one")
async def list_requests(
    wanted: Annotated[RequestsParameters, Query()], services: ServicesDep, principal: UsageReaderDep
) -> SettledRequestList:
    """The ledger: what each request used and costs, the newest first."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        query = await _ledger_query(session, principal.tenant_id, wanted)
        page = await newest_requests(session, query, PageRequest(wanted.limit, wanted.cursor))
        data = await _shown(session, page.items)
    return SettledRequestList(data=data, next_cursor=page.next_cursor)


@router.get(
    "/requests/export",
    operation_id="exportSettledRequests",
    summary="Requests, one by one, as CSV",
    response_class=CsvAnswer,
    status_code=200,
    responses=csv_answers("A line a request, the oldest first."),
)
async def export_requests(
    wanted: Annotated[RequestsExportParameters, Query()],
    services: ServicesDep,
    principal: UsageReaderDep,
) -> CsvAnswer:
    """Every request of the period, or a refusal; never a part."""
    tenant_id = principal.tenant_id
    async with services.database.unit_of_work(tenant_id) as session:
        query = await _ledger_query(session, tenant_id, wanted)
        await refuse_too_many(session, query)
    columns = tuple(SettledRequest.model_fields)

    async def blocks() -> AsyncIterator[str]:
        yield lines([columns])
        after: RowKey | None = None
        while True:
            # A transaction a block: none is open while a slow client reads.
            async with services.database.unit_of_work(tenant_id) as session:
                rows = await requests_after(session, query, after, BLOCK_ROWS)
                shown = await _shown(session, rows)
            yield lines(model_rows(shown, columns))
            if len(rows) < BLOCK_ROWS:
                return
            after = RowKey(rows[-1].created_at, rows[-1].request_id)

    return CsvAnswer(blocks(), "requests.csv")


def _span(row: Used | Stored, width: BucketWidth) -> tuple[datetime, datetime]:
    return row.bucket_start, row.bucket_start + width.length


def _amounts(row: Stored) -> tuple[int, int]:
    return row.byte_seconds, row.cost_micros


async def _ledger_query(session: AsyncSession, tenant_id: TenantId, wanted: Period) -> LedgerQuery:
    return LedgerQuery(
        start=wanted.start, end=wanted.end, wanted=await filter_of(session, wanted, [tenant_id])
    )


async def _shown(session: AsyncSession, rows: list[LedgerEntry]) -> list[SettledRequest]:
    adapters = await names_of(session, {row.adapter_id for row in rows if row.adapter_id})
    return [
        SettledRequest(
            request_id=row.request_id,
            admitted_at=row.admitted_at,
            settled_at=row.created_at,
            api_key_id=row.api_key_id,
            member_id=row.member_id,
            model=row.model,
            base_model=row.base_model,
            adapter_id=row.adapter_id,
            adapter=None if row.adapter_id is None else adapters.get(row.adapter_id),
            version=row.adapter_version,
            adapter_digest=row.adapter_digest,
            prompt_tokens=row.prompt_tokens,
            uncached_tokens=row.prompt_tokens - row.cached_tokens,
            cached_tokens=row.cached_tokens,
            output_tokens=row.output_tokens,
            price_id=row.price_id,
            cost_micros=row.cost_micros,
            outcome=row.outcome,
            error_code=row.error_code,
            queue_ms=row.queue_ms,
            ttft_ms=row.ttft_ms,
            duration_ms=row.duration_ms,
            settled_by=row.settled_by,
        )
        for row in rows
    ]
