"""Operators' keys, for operators: admins make and end them, viewers see them."""

from datetime import timedelta
from uuid import UUID

from fastapi import APIRouter, Request, Response

from loraplex.api.acting import actor_of
from loraplex.api.admin.errors import system_of
from loraplex.api.authentication import OperatorDep
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.key_answers import operator_key_shown, operator_key_with_text
from loraplex.api.key_schemas import (
    KeyRotation,
    NewOperatorKey,
    OperatorKey,
    OperatorKeyChanges,
    OperatorKeyList,
    OperatorKeyWithText,
)
from loraplex.api.pages import PageDep
from loraplex.api.services import ServicesDep
from loraplex.api.validation import read_json, validate

router = APIRouter(prefix="/api/v1/admin/operator-keys", tags=["admin"], responses=PROBLEM)


@router.get("", operation_id="listOperatorKeys", summary="List operators' keys")
async def list_operator_keys(
    services: ServicesDep, _: OperatorDep, wanted: PageDep
) -> OperatorKeyList:
    """Every operator's key, ended ones too, oldest first."""
    async with system_of(services).unit_of_work() as session:
        page = await services.tenants.operator_keys.page(session, wanted)
    shown = [operator_key_shown(one) for one in page.items]
    return OperatorKeyList(data=shown, next_cursor=page.next_cursor)


@router.post(
    "",
    operation_id="createOperatorKey",
    summary="Create an operator's key",
    status_code=201,
    openapi_extra=json_body(NewOperatorKey),
)
async def create_operator_key(
    request: Request, response: Response, services: ServicesDep, operator: OperatorDep
) -> OperatorKeyWithText:
    """A new key of an operator. The answer holds its text, this once."""
    body = validate(NewOperatorKey, await read_json(request))
    async with system_of(services).unit_of_work() as session:
        view, text = await services.tenants.operator_keys.create(
            session,
            operator,
            actor_of(request, operator),
            body.name,
            role=body.role,
            expires_at=body.expires_at,
        )
    response.headers["Location"] = f"/api/v1/admin/operator-keys/{view.id}"
    return operator_key_with_text(view, text)


@router.get("/{key}", operation_id="getOperatorKey", summary="Get an operator's key")
async def get_operator_key(key: UUID, services: ServicesDep, _: OperatorDep) -> OperatorKey:
    """One key, without its text."""
    async with system_of(services).unit_of_work() as session:
        return operator_key_shown(await services.tenants.operator_keys.get(session, key))


@router.patch(
    "/{key}",
    operation_id="changeOperatorKey",
    summary="Change an operator's key",
    openapi_extra=json_body(OperatorKeyChanges),
)
async def change_operator_key(
    key: UUID, request: Request, services: ServicesDep, operator: OperatorDep
) -> OperatorKey:
    """Rename a key, disable it or enable it again."""
    body = validate(OperatorKeyChanges, await read_json(request))
    async with system_of(services).unit_of_work() as session:
        view = await services.tenants.operator_keys.change(
            session,
            actor_of(request, operator),
            key,
            name=body.name,
            is_disabled=body.is_disabled,
        )
    services.authenticator.forget(key)
    return operator_key_shown(view)


@router.post(
    "/{key}/rotate",
    operation_id="rotateOperatorKey",
    summary="Rotate an operator's key",
    status_code=201,
    openapi_extra=json_body(KeyRotation),
)
async def rotate_operator_key(
    key: UUID, request: Request, response: Response, services: ServicesDep, operator: OperatorDep
) -> OperatorKeyWithText:
    """A new key of the same role, shown this once; this one ends after the overlap.

    The body may be left out.
    """
    body = validate(KeyRotation, await read_json(request) if await request.body() else {})
    async with system_of(services).unit_of_work() as session:
        view, text = await services.tenants.operator_keys.rotate(
            session,
            operator,
            actor_of(request, operator),
            key,
            timedelta(seconds=body.overlap_seconds),
            body.expires_at,
        )
    services.authenticator.forget(key)
    response.headers["Location"] = f"/api/v1/admin/operator-keys/{view.id}"
    return operator_key_with_text(view, text)


@router.delete(
    "/{key}", operation_id="revokeOperatorKey", summary="Revoke an operator's key", status_code=204
)
async def revoke_operator_key(
    key: UUID, request: Request, services: ServicesDep, operator: OperatorDep
) -> None:
    """End a key, and web sessions opened with it, on every gateway within five seconds."""
    async with system_of(services).unit_of_work() as session:
        await services.tenants.operator_keys.revoke(session, actor_of(request, operator), key)
    services.authenticator.forget(key)
