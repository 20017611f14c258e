"""A tenant's webhooks: where events go, and what became of them."""

from datetime import timedelta
from typing import Annotated
from urllib.parse import urlsplit
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response

from loraplex.api.acting import record_own
from loraplex.api.authentication import WebhookReaderDep, WebhookWriterDep
from loraplex.api.documentation import PROBLEM, json_body
from loraplex.api.pages import PageDep
from loraplex.api.services import ServicesDep
from loraplex.api.tenant.webhook_schemas import (
    Delivery,
    DeliveryAttempt,
    DeliveryList,
    NewWebhook,
    Rotation,
    Webhook,
    WebhookChanges,
    WebhookList,
    WebhookWithSecret,
)
from loraplex.api.validation import read_json, validate
from loraplex.platform.audit.actors import Target
from loraplex.platform.webhooks import deliveries
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.sending import message_id
from loraplex.platform.webhooks.views import DeliveryView, EndpointView

router = APIRouter(prefix="/api/v1/webhooks", tags=["webhooks"], responses=PROBLEM)

WebhookId = Annotated[UUID, Path()]
DeliveryId = Annotated[UUID, Path()]


@router.get("", operation_id="listWebhooks")
async def list_webhooks(
    services: ServicesDep, principal: WebhookReaderDep, wanted: PageDep
) -> WebhookList:
    """The tenant's webhooks, oldest first."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        page = await services.webhooks.page(session, principal.tenant_id, wanted)
    return WebhookList(data=[_webhook(one) for one in page.items], next_cursor=page.next_cursor)


@router.post("", operation_id="createWebhook", status_code=201, openapi_extra=json_body(NewWebhook))
async def create_webhook(
    request: Request, response: Response, services: ServicesDep, principal: WebhookWriterDep
) -> WebhookWithSecret:
    """Have events sent to an address. The answer holds the signing secret, this once."""
    body = validate(NewWebhook, await read_json(request))
    async with services.database.unit_of_work(principal.tenant_id) as session:
        view, secret = await services.webhooks.create(
            session,
            principal.tenant_id,
            url=body.url,
            description=body.description,
            event_types=body.event_types,
        )
        await record_own(
            session, request, principal, "webhook.created", _target(view), after=_told(view)
        )
    response.headers["Location"] = f"/api/v1/webhooks/{view.id}"
    return WebhookWithSecret(**_webhook(view).model_dump(), secret=secret)


@router.get("/{webhook}", operation_id="getWebhook")
async def get_webhook(
    webhook: WebhookId, services: ServicesDep, principal: WebhookReaderDep
) -> Webhook:
    """One webhook, without its secret."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        return _webhook(await services.webhooks.get(session, principal.tenant_id, webhook))


@router.patch("/{webhook}", operation_id="changeWebhook", openapi_extra=json_body(WebhookChanges))
async def change_webhook(
    webhook: WebhookId, request: Request, services: ServicesDep, principal: WebhookWriterDep
) -> Webhook:
    """Change what the body names; enable a webhook again that was disabled."""
    body = validate(WebhookChanges, await read_json(request))
    async with services.database.unit_of_work(principal.tenant_id) as session:
        before = await services.webhooks.get(session, principal.tenant_id, webhook, is_locked=True)
        view = await services.webhooks.change(
            session,
            principal.tenant_id,
            webhook,
            url=body.url,
            description=body.description,
            event_types=body.event_types,
            is_enabled=body.is_enabled,
        )
        changed = _told(view) | {"url_changed": before.url != view.url}
        await record_own(
            session,
            request,
            principal,
            "webhook.changed",
            _target(view),
            before=_told(before),
            after=changed,
        )
    return _webhook(view)


@router.delete("/{webhook}", operation_id="deleteWebhook", status_code=204)
async def delete_webhook(
    webhook: WebhookId, request: Request, services: ServicesDep, principal: WebhookWriterDep
) -> None:
    """Delete a webhook and the record of its deliveries."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        before = await services.webhooks.get(session, principal.tenant_id, webhook, is_locked=True)
        await services.webhooks.delete(session, principal.tenant_id, webhook)
        await record_own(
            session, request, principal, "webhook.deleted", _target(before), before=_told(before)
        )


@router.post(
    "/{webhook}/rotate-secret",
    operation_id="rotateWebhookSecret",
    openapi_extra=json_body(Rotation),
)
async def rotate_secret(
    webhook: WebhookId, request: Request, services: ServicesDep, principal: WebhookWriterDep
) -> WebhookWithSecret:
    """A new signing secret, shown this once; the old one signs too until the overlap ends.

    The body may be left out.
    """
    body = validate(Rotation, await read_json(request) if await request.body() else {})
    async with services.database.unit_of_work(principal.tenant_id) as session:
        view, secret = await services.webhooks.rotate_secret(
            session, principal.tenant_id, webhook, timedelta(seconds=body.overlap_seconds)
        )
        after = {"overlap_seconds": body.overlap_seconds}
        await record_own(
            session, request, principal, "webhook.secret_rotated", _target(view), after=after
        )
    return WebhookWithSecret(**_webhook(view).model_dump(), secret=secret)


@router.post("/{webhook}/test", operation_id="testWebhook", status_code=202)
async def test_webhook(
    webhook: WebhookId, response: Response, services: ServicesDep, principal: WebhookWriterDep
) -> Delivery:
    """Send a `webhook.test` there; the delivery tells how it went."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        sent = await services.webhooks.test(session, principal.tenant_id, webhook)
        view = await deliveries.find_delivery(session, principal.tenant_id, webhook, sent.id)
    response.headers["Location"] = f"/api/v1/webhooks/{webhook}/deliveries/{view.id}"
    return _delivery(view)


@router.get("/{webhook}/deliveries", operation_id="listDeliveries")
async def list_deliveries(
    webhook: WebhookId, services: ServicesDep, principal: WebhookReaderDep, wanted: PageDep
) -> DeliveryList:
    """What was sent there in the last 30 days, newest first, with every attempt."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        page = await deliveries.page_of_deliveries(session, principal.tenant_id, webhook, wanted)
    return DeliveryList(data=[_delivery(one) for one in page.items], next_cursor=page.next_cursor)


@router.get("/{webhook}/deliveries/{delivery}", operation_id="getDelivery")
async def get_delivery(
    webhook: WebhookId, delivery: DeliveryId, services: ServicesDep, principal: WebhookReaderDep
) -> Delivery:
    """One delivery with every attempt."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        return _delivery(
            await deliveries.find_delivery(session, principal.tenant_id, webhook, delivery)
        )


@router.post(
    "/{webhook}/deliveries/{delivery}/retry", operation_id="retryDelivery", status_code=202
)
async def retry_delivery(
    webhook: WebhookId,
    delivery: DeliveryId,
    response: Response,
    services: ServicesDep,
    principal: WebhookWriterDep,
) -> Delivery:
    """Send a delivery that has ended once more, under the same message id."""
    async with services.database.unit_of_work(principal.tenant_id) as session:
        view = await deliveries.retry(session, principal.tenant_id, webhook, delivery)
    response.headers["Location"] = f"/api/v1/webhooks/{webhook}/deliveries/{delivery}"
    return _delivery(view)


def _target(view: EndpointView) -> Target:
    return Target("webhook", view.id, view.description or None)


def _told(view: EndpointView) -> dict[str, object]:
    """What the audit log keeps of one. Of its address the host alone: paths may be secrets."""
    return {
        "host": urlsplit(view.url).hostname,
        "description": view.description,
        "event_types": list(view.event_types),
        "is_enabled": view.is_enabled,
    }


def _webhook(view: EndpointView) -> Webhook:
    return Webhook(
        id=str(view.id),
        url=view.url,
        description=view.description,
        event_types=[EventType(one) for one in view.event_types],
        is_enabled=view.is_enabled,
        disabled_reason=None if view.disabled_reason is None else view.disabled_reason.value,
        disabled_at=view.disabled_at,
        consecutive_failures=view.consecutive_failures,
        previous_secret_expires_at=view.previous_secret_expires_at,
        created_at=view.created_at,
    )


def _delivery(view: DeliveryView) -> Delivery:
    return Delivery(
        id=str(view.id),
        message_id=message_id(view.event_id),
        event_type=EventType(view.event_type),
        status=view.status.value,
        next_attempt_at=view.next_attempt_at,
        finished_at=view.finished_at,
        created_at=view.created_at,
        attempts=[
            DeliveryAttempt(
                number=one.number,
                started_at=one.started_at,
                milliseconds=one.milliseconds,
                status_code=one.status_code,
                response=one.response,
                error=one.error,
            )
            for one in view.attempts
        ],
    )
