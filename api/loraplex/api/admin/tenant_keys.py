"""Tenants' keys, for operators: the first one of a tenant, and the last."""

from uuid import UUID

from fastapi import APIRouter, Request, Response

from loraplex.api.acting import actor_of
from loraplex.api.admin.errors import system_of
from loraplex.api.authentication import OperatorDep
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.key_answers import key_shown, key_with_text, models_allowed
from loraplex.api.key_schemas import KeyList, KeyWithText, NewKey
from loraplex.api.pages import PageDep
from loraplex.api.services import ServicesDep
from loraplex.api.validation import read_json, validate
from loraplex.platform.tenancy import key_rows
from loraplex.platform.tenancy.administration import owner_of
from loraplex.platform.tenancy.key_rules import KeyDraft

router = APIRouter(prefix="/api/v1/admin/tenants/{tenant}/keys", tags=["admin"], responses=PROBLEM)


@router.get("", operation_id="listTenantKeys", summary="List a tenant's keys")
async def list_tenant_keys(
    tenant: str, services: ServicesDep, _: OperatorDep, wanted: PageDep
) -> KeyList:
    """A tenant's keys, ended ones too, oldest first."""
    async with system_of(services).unit_of_work() as session:
        owner = owner_of(await services.tenants.find_tenant(session, tenant))
        page = await key_rows.page_of_keys(session, owner.tenant_id, wanted)
    return KeyList(data=[key_shown(one) for one in page.items], next_cursor=page.next_cursor)


@router.post(
    "",
    operation_id="createTenantKey",
    summary="Create a key of a tenant",
    status_code=201,
    openapi_extra=json_body(NewKey),
)
async def create_tenant_key(
    tenant: str, request: Request, response: Response, services: ServicesDep, operator: OperatorDep
) -> KeyWithText:
    """A new key of the tenant, and of none of its members. The answer holds its text, this once."""
    body = validate(NewKey, await read_json(request))
    async with system_of(services).unit_of_work() as session:
        owner = owner_of(await services.tenants.find_tenant(session, tenant))
        draft = KeyDraft(
            body.name,
            scopes=frozenset(body.scopes),
            models=models_allowed(services, owner.tenant_name, body.models),
            expires_at=body.expires_at,
        )
        view, text = await services.tenants.keys.create(
            session, owner, actor_of(request, operator), draft
        )
    response.headers["Location"] = f"/api/v1/admin/tenants/{tenant}/keys/{view.id}"
    return key_with_text(view, text)


@router.delete(
    "/{key}", operation_id="revokeTenantKey", summary="Revoke a tenant's key", status_code=204
)
async def revoke_tenant_key(
    tenant: str, key: UUID, request: Request, services: ServicesDep, operator: OperatorDep
) -> None:
    """End a key, and web sessions opened with it, on every gateway within five seconds."""
    async with system_of(services).unit_of_work() as session:
        owner = owner_of(await services.tenants.find_tenant(session, tenant))
        await services.tenants.keys.revoke(session, owner, actor_of(request, operator), key)
    services.authenticator.forget(key)
