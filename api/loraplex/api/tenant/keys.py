"""A tenant's API keys: made, listed, changed, rotated and revoked by those who may."""

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response

from loraplex.api.acting import actor_of
from loraplex.api.authentication import requires
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.key_answers import key_shown, key_with_text, models_allowed
from loraplex.api.key_schemas import Key, KeyChanges, KeyList, KeyRotation, KeyWithText, NewKey
from loraplex.api.pages import PageDep
from loraplex.api.services import ServicesDep
from loraplex.api.validation import read_json, validate
from loraplex.platform.tenancy import api_keys, key_rows
from loraplex.platform.tenancy.key_rules import KeyDraft
from loraplex.platform.tenancy.principals import Scope, TenantPrincipal

router = APIRouter(prefix="/api/v1/keys", tags=["keys"], responses=PROBLEM)

ReaderDep = Annotated[TenantPrincipal, Depends(requires(Scope.KEYS_READ))]
WriterDep = Annotated[TenantPrincipal, Depends(requires(Scope.KEYS_WRITE))]


@router.get("", operation_id="listKeys", summary="List keys")
async def list_keys(services: ServicesDep, principal: ReaderDep, wanted: PageDep) -> KeyList:
    """The tenant's keys, ended ones too, oldest first."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        page = await key_rows.page_of_keys(session, principal.tenant_id, wanted)
    return KeyList(data=[key_shown(one) for one in page.items], next_cursor=page.next_cursor)


@router.post(
    "",
    operation_id="createKey",
    summary="Create a key",
    status_code=201,
    openapi_extra=json_body(NewKey),
)
async def create_key(
    request: Request, response: Response, services: ServicesDep, principal: WriterDep
) -> KeyWithText:
    """A new key, of the caller where that is a member. The answer holds its text, this once."""
    body = validate(NewKey, await read_json(request))
    draft = KeyDraft(
        body.name,
        scopes=frozenset(body.scopes),
        models=models_allowed(services, principal.tenant_name, body.models),
        expires_at=body.expires_at,
    )
    async with services.database.unit_of_work(principal.tenant_id) as session:
        view, text = await services.tenants.keys.create(
            session, principal, actor_of(request, principal), draft
        )
    response.headers["Location"] = f"/api/v1/keys/{view.id}"
    return key_with_text(view, text)


@router.get("/{key}", operation_id="getKey", summary="Get a key")
async def get_key(key: UUID, services: ServicesDep, principal: ReaderDep) -> Key:
    """One key, without its text."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        _, view = await key_rows.find_key(session, principal.tenant_id, key)
    return key_shown(view)


@router.patch(
    "/{key}",
    operation_id="changeKey",
    summary="Change a key",
    openapi_extra=json_body(KeyChanges),
)
async def change_key(
    key: UUID, request: Request, services: ServicesDep, principal: WriterDep
) -> Key:
    """Rename a key, restrict it to models, disable it or enable it again."""
    body = validate(KeyChanges, await read_json(request))
    models = None
    if body.models is not None:
        models = (models_allowed(services, principal.tenant_name, body.models),)
    changes = api_keys.KeyChanges(body.name, models, body.is_disabled)
    async with services.database.unit_of_work(principal.tenant_id) as session:
        view = await services.tenants.keys.change(
            session, principal, actor_of(request, principal), key, changes
        )
    services.authenticator.forget(key)
    return key_shown(view)


@router.post(
    "/{key}/rotate",
    operation_id="rotateKey",
    summary="Rotate a key",
    status_code=201,
    openapi_extra=json_body(KeyRotation),
)
async def rotate_key(
    key: UUID, request: Request, response: Response, services: ServicesDep, principal: WriterDep
) -> KeyWithText:
    """A new key that may what this one may, shown this once; this one ends after the overlap.

    The body may be left out.
    """
    body = validate(KeyRotation, await read_json(request) if await request.body() else {})
    async with services.database.unit_of_work(principal.tenant_id) as session:
        view, text = await services.tenants.keys.rotate(
            session,
            principal,
            actor_of(request, principal),
            key,
            timedelta(seconds=body.overlap_seconds),
            body.expires_at,
        )
    services.authenticator.forget(key)
    response.headers["Location"] = f"/api/v1/keys/{view.id}"
    return key_with_text(view, text)


@router.delete("/{key}", operation_id="revokeKey", summary="Revoke a key", status_code=204)
async def revoke_key(
    key: UUID, request: Request, services: ServicesDep, principal: WriterDep
) -> None:
    """End a key, and web sessions opened with it, on every gateway within five seconds."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        await services.tenants.keys.revoke(session, principal, actor_of(request, principal), key)
    services.authenticator.forget(key)
