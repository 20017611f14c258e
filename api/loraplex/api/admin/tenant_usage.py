"""What tenants have used, all of them or some, for operators."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query

from loraplex.adapters_registry.versions.labels import names_of
from loraplex.api.admin.errors import system_of
from loraplex.api.authentication import OperatorDep
from loraplex.api.documentation import PROBLEM
from loraplex.api.services import ServicesDep
from loraplex.api.usage_answers import (
    adapters_in,
    by_bucket,
    counts,
    labels,
    storage_of,
    total_of,
)
from loraplex.api.usage_queries import page_of_buckets, usage_query
from loraplex.api.usage_schemas import (
    AdminStorageUsage,
    AdminUsage,
    AdminUsageBucket,
    AdminUsageParameters,
    AdminUsageResult,
)
from loraplex.platform.metering.pricing import currency_of
from loraplex.platform.metering.usage import stored, used
from loraplex.platform.tenancy.labels import tenant_ids_named, tenant_names

router = APIRouter(prefix="/api/v1/admin/usage", tags=["admin"], responses=PROBLEM)


@router.get("", operation_id="getAdminUsage", summary="Usage of tenants in buckets")
async def get_usage(
    wanted: Annotated[AdminUsageParameters, Query()], services: ServicesDep, _: OperatorDep
) -> AdminUsage:
    """As a tenant's own usage, of every tenant together, or of each with `group_by=tenant`."""
    now = datetime.now(UTC)
    page = page_of_buckets(wanted, wanted.bucket_width, now, wanted.limit, wanted.cursor)
    async with system_of(services).unit_of_work() as session:
        tenant_ids = await tenant_ids_named(session, wanted.tenant) if wanted.tenant else None
        query = await usage_query(session, services, wanted, page, tenant_ids)
        rows, kept = await used(session, query), await stored(session, query)
        adapters = await names_of(session, adapters_in(rows))
        found = {row.keys.get("tenant_id") for row in rows} | {row.tenant_id for row in kept}
        names = await tenant_names(session, {one for one in found if one is not None})
        currency = await currency_of(session)
    of_requests, of_storage = by_bucket(rows), by_bucket(kept)
    return AdminUsage(
        bucket_width=page.width,
        start=page.period_start,
        end=page.period_end,
        group_by=wanted.group_by,
        currency=currency,
        data=[
            AdminUsageBucket(
                start=start,
                end=start + page.width.length,
                results=[
                    AdminUsageResult(
                        tenant_id=(tenant_id := row.keys.get("tenant_id")),
                        tenant=None if tenant_id is None else names.get(tenant_id),
                        **(labels(row, adapters) | counts(row)),
                    )
                    for row in of_requests.get(start, ())
                ],
                storage=[
                    AdminStorageUsage(
                        tenant_id=row.tenant_id,
                        tenant=None if row.tenant_id is None else names.get(row.tenant_id),
                        byte_seconds=row.byte_seconds,
                        cost_micros=row.cost_micros,
                    )
                    for row in of_storage.get(start, ())
                ],
            )
            for start in page.buckets()
        ],
        total=total_of(rows, storage_of(kept) if query.knows_storage else None),
        next_cursor=page.next_cursor,
    )
