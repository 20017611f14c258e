"""Operators make prices and look at them; nobody changes one."""

from collections.abc import Mapping
from uuid import UUID

from fastapi import APIRouter, Request

from loraplex.api.acting import actor_of
from loraplex.api.admin.errors import system_of
from loraplex.api.admin.price_schemas import NewPrice, Price, PriceList
from loraplex.api.authentication import OperatorDep
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.pages import PageDep
from loraplex.api.services import ServicesDep
from loraplex.api.validation import read_json, validate
from loraplex.platform.metering.models import PriceRow
from loraplex.platform.metering.pricing import create_price, page_of_prices
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.labels import tenant_names

router = APIRouter(prefix="/api/v1/admin/prices", tags=["admin"], responses=PROBLEM)


@router.get("", operation_id="listPrices", summary="List prices")
async def list_prices(services: ServicesDep, _: OperatorDep, wanted: PageDep) -> PriceList:
    """Every price that was ever made, the newest first: past, present and future ones."""
    async with system_of(services).unit_of_work() as session:
        page = await page_of_prices(session, wanted)
        tenants = {row.tenant_id for row in page.items if row.tenant_id is not None}
        names = await tenant_names(session, tenants)
    return PriceList(data=[_price(row, names) for row in page.items], next_cursor=page.next_cursor)


@router.post(
    "",
    operation_id="createPrice",
    status_code=201,
    summary="Make a price",
    openapi_extra=json_body(NewPrice),
)
async def make_price(request: Request, services: ServicesDep, operator: OperatorDep) -> Price:
    """Make a price for what is admitted from now on, or from a later moment.

    It cannot be changed or taken back: make another one. A price that begins at once is in force
    on every gateway within five seconds, one that begins later from its very moment.
    """
    wanted = validate(NewPrice, await read_json(request))
    async with system_of(services).unit_of_work() as session:
        tenant_id = None
        if wanted.tenant is not None:
            tenant = await services.tenants.find_tenant(session, wanted.tenant)
            tenant_id = TenantId(tenant.id)
        row = await create_price(
            session,
            actor_of(request, operator),
            tenant_id=tenant_id,
            base_model=wanted.base_model,
            input_micros_per_million=wanted.input_micros_per_million,
            cached_input_micros_per_million=wanted.cached_input_micros_per_million,
            output_micros_per_million=wanted.output_micros_per_million,
            storage_micros_per_gib_month=wanted.storage_micros_per_gib_month
            if wanted.base_model is not None
            else wanted.storage_micros_per_gib_month or 0,
            currency=wanted.currency,
            effective_from=wanted.effective_from,
        )
    services.prices.forget()
    return _price(row, {} if tenant_id is None else {tenant_id: str(wanted.tenant)})


def _price(row: PriceRow, names: Mapping[UUID, str]) -> Price:
    return Price(
        id=row.id,
        tenant=None if row.tenant_id is None else names.get(row.tenant_id),
        tenant_id=row.tenant_id,
        base_model=row.base_model,
        input_micros_per_million=row.input_micros_per_million,
        cached_input_micros_per_million=row.cached_input_micros_per_million,
        output_micros_per_million=row.output_micros_per_million,
        storage_micros_per_gib_month=row.storage_micros_per_gib_month,
        currency=row.currency,
        effective_from=row.effective_from,
        created_at=row.created_at,
    )
