"""An adapter's aliases: moved by compare-and-swap, with history."""

from fastapi import APIRouter, Request, Response
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.rollouts import aliases
from loraplex.adapters_registry.rollouts.views import AliasView, MoveView
from loraplex.api.acting import record_own
from loraplex.api.authentication import AdapterReaderDep, AdapterWriterDep
from loraplex.api.conditions import IfMatchHeader, generation_of, tell_generation
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.pages import PageDep
from loraplex.api.services import ServicesDep
from loraplex.api.tenant.nearness import foretell
from loraplex.api.tenant.schemas import Alias, AliasList, AliasMove, AliasMoveList, AliasTarget
from loraplex.api.validation import read_json, validate
from loraplex.platform.audit.actors import Target
from loraplex.platform.database.pages import PageRequest
from loraplex.platform.tenancy.principals import TenantPrincipal

router = APIRouter(prefix="/api/v1/adapters/{name}", tags=["aliases"], responses=PROBLEM)


@router.get("/aliases", operation_id="listAliases")
async def list_aliases(
    name: str, services: ServicesDep, principal: AdapterReaderDep, wanted: PageDep
) -> AliasList:
    """The adapter's aliases by name; before them `latest`, the newest callable version."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        page = await aliases.list_aliases(session, principal, name, wanted)
    return AliasList(data=[_alias(one) for one in page.items], next_cursor=page.next_cursor)


@router.get("/aliases/{alias}", operation_id="getAlias")
async def get_alias(
    name: str, alias: str, response: Response, services: ServicesDep, principal: AdapterReaderDep
) -> Alias:
    """One alias; the ETag is its generation."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        view = await aliases.get_alias(session, principal, name, alias)
    tell_generation(response, view.generation)
    return _alias(view)


@router.put(
    "/aliases/{alias}",
    operation_id="setAlias",
    responses={201: {"model": Alias, "description": "It was not set before."}},
    openapi_extra=json_body(AliasTarget),
)
async def set_alias(
    name: str,
    alias: str,
    request: Request,
    response: Response,
    services: ServicesDep,
    principal: AdapterWriterDep,
    if_match: IfMatchHeader = None,
) -> Alias:
    """Point an alias at a version that can be called; If-Match is required once it is set."""
    expected = generation_of(if_match)
    target = validate(AliasTarget, await read_json(request))
    async with services.database.unit_of_work(principal.tenant_id) as session:
        view, is_new = await aliases.set_alias(
            session, principal, name, alias, target.version, expected
        )
        if view.generation != expected:  # else it pointed there already
            await _record_move(session, request, principal, name, alias)
    await foretell(services, principal, name, view.version)
    if is_new:
        response.status_code = 201
        response.headers["Location"] = f"/api/v1/adapters/{name}/aliases/{alias}"
    tell_generation(response, view.generation)
    return _alias(view)


@router.delete("/aliases/{alias}", operation_id="removeAlias", status_code=204)
async def remove_alias(
    name: str,
    alias: str,
    request: Request,
    services: ServicesDep,
    principal: AdapterWriterDep,
    if_match: IfMatchHeader = None,
) -> None:
    """Make an alias mean nothing; set again, its generations go on where they were."""
    expected = generation_of(if_match)
    async with services.database.unit_of_work(principal.tenant_id) as session:
        await aliases.remove_alias(session, principal, name, alias, expected)
        await _record_move(session, request, principal, name, alias)


@router.get("/aliases/{alias}/moves", operation_id="listAliasMoves")
async def list_moves(
    name: str, alias: str, services: ServicesDep, principal: AdapterReaderDep, wanted: PageDep
) -> AliasMoveList:
    """Every move of the alias, newest first."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        page = await aliases.list_moves(session, principal, name, alias, wanted)
    return AliasMoveList(data=[_move(one) for one in page.items], next_cursor=page.next_cursor)


@router.post("/aliases/{alias}/rollback", operation_id="rollBackAlias")
async def roll_back_alias(
    name: str,
    alias: str,
    request: Request,
    response: Response,
    services: ServicesDep,
    principal: AdapterWriterDep,
    if_match: IfMatchHeader = None,
) -> Alias:
    """Point the alias at what it pointed at before its last move."""
    expected = generation_of(if_match)
    async with services.database.unit_of_work(principal.tenant_id) as session:
        view = await aliases.roll_back_alias(session, principal, name, alias, expected)
        await _record_move(session, request, principal, name, alias)
    await foretell(services, principal, name, view.version)
    tell_generation(response, view.generation)
    return _alias(view)


async def _record_move(
    session: AsyncSession, request: Request, principal: TenantPrincipal, name: str, alias: str
) -> None:
    """Note the move that this transaction, which holds the adapter, has just made."""
    page = await aliases.list_moves(session, principal, name, alias, PageRequest(1))
    move = page.items[0]
    await record_own(
        session,
        request,
        principal,
        "alias.moved",
        Target("alias", None, f"{name}:{alias}"),
        before={"version": move.from_version},
        after={"version": move.to_version, "kind": move.kind.value, "generation": move.generation},
    )


def _alias(view: AliasView) -> Alias:
    return Alias(
        adapter=view.adapter,
        alias=view.alias,
        version=view.version,
        generation=view.generation,
        model=view.model,
        moved_at=view.moved_at,
    )


def _move(view: MoveView) -> AliasMove:
    return AliasMove(
        alias=view.alias,
        generation=view.generation,
        kind=view.kind.value,
        from_version=view.from_version,
        to_version=view.to_version,
        moved_at=view.moved_at,
    )
