"""Operators declare system prompts public, and withdraw them."""

import asyncio
from collections.abc import Mapping

from fastapi import APIRouter, Request

from loraplex.api.acting import actor_of
from loraplex.api.admin.errors import system_of
from loraplex.api.admin.public_prefix_schemas import (
    PublicPrefix,
    PublicPrefixDetails,
    PublicPrefixList,
    PublicPrefixOrder,
)
from loraplex.api.authentication import OperatorDep
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.pages import PageDep
from loraplex.api.services import Services, ServicesDep
from loraplex.api.validation import read_json, validate
from loraplex.platform.public_prefixes import service
from loraplex.platform.public_prefixes.models import PublicPrefix as PublicPrefixRow

router = APIRouter(prefix="/api/v1/admin/public-prefixes", tags=["admin"], responses=PROBLEM)


@router.get("", operation_id="listPublicPrefixes", summary="List public prefixes")
async def list_public_prefixes(
    services: ServicesDep, _: OperatorDep, wanted: PageDep
) -> PublicPrefixList:
    """What is public, by name, without the texts."""
    async with system_of(services).unit_of_work() as session:
        page = await service.page_of_prefixes(session, wanted)
    tokens = services.public_prefixes.tokens
    return PublicPrefixList(
        data=[_prefix(row, tokens) for row in page.items], next_cursor=page.next_cursor
    )


@router.get("/{prefix}", operation_id="getPublicPrefix", summary="Show a public prefix")
async def get_public_prefix(
    prefix: str, services: ServicesDep, _: OperatorDep
) -> PublicPrefixDetails:
    """One public prefix with its text."""
    async with system_of(services).unit_of_work() as session:
        return _details(services, await service.find(session, prefix))


@router.put(
    "/{prefix}",
    operation_id="declarePublicPrefix",
    summary="Declare a system prompt public",
    openapi_extra=json_body(PublicPrefixOrder),
)
async def declare_public_prefix(
    prefix: str, request: Request, services: ServicesDep, operator: OperatorDep
) -> PublicPrefixDetails:
    """Have the KV of a system message kept once for all tenants, in place of what had the name.

    The text is a whole system message, just as applications send it. By timing, any tenant can
    find out that somebody has used it of late. In force within five seconds on every gateway.
    """
    text = validate(PublicPrefixOrder, await read_json(request)).text
    service.check_declaration(prefix, text)
    await asyncio.to_thread(services.public_prefixes.render, text)  # the template has a say
    async with system_of(services).unit_of_work() as session:
        row = await service.declare(session, actor_of(request, operator), prefix, text)
    await services.declared_prefixes.read()  # here it is in force before the answer
    return _details(services, row)


@router.delete(
    "/{prefix}",
    operation_id="withdrawPublicPrefix",
    summary="Withdraw a public prefix",
    status_code=204,
)
async def withdraw_public_prefix(
    prefix: str, request: Request, services: ServicesDep, operator: OperatorDep
) -> None:
    """Make a text private again, within five seconds on every gateway."""
    async with system_of(services).unit_of_work() as session:
        await service.withdraw(session, actor_of(request, operator), prefix)
    await services.declared_prefixes.read()


def _prefix(row: PublicPrefixRow, tokens: Mapping[str, list[int]]) -> PublicPrefix:
    rendered = tokens.get(row.name)
    return PublicPrefix(
        name=row.name,
        size_bytes=len(row.text.encode()),
        tokens=None if rendered is None else len(rendered),
        declared_by=row.declared_by,
        declared_at=row.declared_at,
    )


def _details(services: Services, row: PublicPrefixRow) -> PublicPrefixDetails:
    told = _prefix(row, services.public_prefixes.tokens)
    return PublicPrefixDetails(**told.model_dump(), text=row.text)
