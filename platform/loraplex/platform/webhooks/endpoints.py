"""A tenant's endpoints: made, changed, tested, given a new secret, deleted. Commits nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.database.clock import transaction_time
from loraplex.platform.database.pages import Keyset, Page, PageRequest
from loraplex.platform.outbound.rules import OutboundRules
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.webhooks.errors import TooManyWebhooks, WebhookDisabled, WebhookNotFound
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.events import emit_to
from loraplex.platform.webhooks.models import (
    DeliveryStatus,
    DisabledReason,
    WebhookDelivery,
    WebhookEndpoint,
)
from loraplex.platform.webhooks.signing import new_secret
from loraplex.platform.webhooks.views import EndpointView

SECRET_PURPOSE = "webhook"  # noqa: S105 - what the key is derived for
MAX_ENDPOINTS = 20
DEFAULT_OVERLAP = timedelta(hours=24)
OLDEST_FIRST = Keyset("webhooks", WebhookEndpoint.created_at, WebhookEndpoint.id)


@dataclass(frozen=True)
class Webhooks:
    """What a tenant does with its endpoints. A secret is told once, when it is made."""

    secrets: SecretKeys
    rules: OutboundRules

    async def create(
        self,
        session: AsyncSession,
        tenant_id: TenantId,
        *,
        url: str,
        description: str,
        event_types: Iterable[EventType],
    ) -> tuple[EndpointView, str]:
        """A new endpoint, enabled, and its secret.

        Raises TooManyWebhooks, and AddressInvalid or AddressNotPublic for an address that would
        never be called.
        """
        self.rules.check(url)
        # One at a time, or two at once could pass the limit together.
        key = func.hashtextextended(f"webhooks/{tenant_id}", 0)
        await session.execute(select(func.pg_advisory_xact_lock(key)))
        mine = WebhookEndpoint.tenant_id == tenant_id
        count = await session.scalar(select(func.count()).select_from(WebhookEndpoint).where(mine))
        if count is not None and count >= MAX_ENDPOINTS:
            raise TooManyWebhooks(MAX_ENDPOINTS)
        secret = new_secret()
        row = WebhookEndpoint(
            tenant_id=tenant_id,
            url=url,
            description=description,
            event_types=[one.value for one in event_types],
            is_enabled=True,
            sealed_secret=self._sealed(secret),
        )
        session.add(row)
        await session.flush()
        await session.refresh(row)
        return EndpointView.of(row), secret

    async def page(
        self, session: AsyncSession, tenant_id: TenantId, wanted: PageRequest
    ) -> Page[EndpointView]:
        """The tenant's endpoints, oldest first; raises InvalidCursor."""
        mine = select(WebhookEndpoint).where(WebhookEndpoint.tenant_id == tenant_id)
        page = await OLDEST_FIRST.page(session, mine, wanted)
        return page.map(lambda row: EndpointView.of(row[0]))

    async def get(
        self,
        session: AsyncSession,
        tenant_id: TenantId,
        endpoint_id: UUID,
        *,
        is_locked: bool = False,
    ) -> EndpointView:
        """One endpoint, locked until this unit of work ends if asked; raises WebhookNotFound."""
        row = await find_endpoint(session, tenant_id, endpoint_id, is_locked=is_locked)
        return EndpointView.of(row)

    async def change(
        self,
        session: AsyncSession,
        tenant_id: TenantId,
        endpoint_id: UUID,
        *,
        url: str | None = None,
        description: str | None = None,
        event_types: Iterable[EventType] | None = None,
        is_enabled: bool | None = None,
    ) -> EndpointView:
        """Change what is given. Raises as `create` does, and WebhookNotFound.

        What was on its way to an endpoint that is disabled is cancelled; enabling it again starts
        its count of failures anew.
        """
        row = await find_endpoint(session, tenant_id, endpoint_id, is_locked=True)
        if url is not None:
            self.rules.check(url)
            row.url = url
        if description is not None:
            row.description = description
        if event_types is not None:
            row.event_types = [one.value for one in event_types]
        if is_enabled is False and row.is_enabled:
            await disable(session, row, DisabledReason.TENANT)
        elif is_enabled and not row.is_enabled:
            row.is_enabled, row.disabled_reason, row.disabled_at = True, None, None
            row.consecutive_failures = 0
        await session.flush()
        return EndpointView.of(row)

    async def rotate_secret(
        self, session: AsyncSession, tenant_id: TenantId, endpoint_id: UUID, overlap: timedelta
    ) -> tuple[EndpointView, str]:
        """A new secret; the old one signs beside it for so long. Raises WebhookNotFound.

        At most two sign: a secret that a rotation before this one left is dropped.
        """
        row = await find_endpoint(session, tenant_id, endpoint_id, is_locked=True)
        secret = new_secret()
        previous, expires_at = None, None
        if overlap > timedelta(0):
            previous = row.sealed_secret
            expires_at = await session.scalar(select(func.now() + overlap))
        row.previous_sealed_secret, row.previous_secret_expires_at = previous, expires_at
        row.sealed_secret = self._sealed(secret)
        await session.flush()
        return EndpointView.of(row), secret

    async def test(
        self, session: AsyncSession, tenant_id: TenantId, endpoint_id: UUID
    ) -> WebhookDelivery:
        """Send a `webhook.test` there; raises WebhookNotFound and WebhookDisabled."""
        row = await find_endpoint(session, tenant_id, endpoint_id)
        if not row.is_enabled:
            raise WebhookDisabled
        return await emit_to(session, row, EventType.WEBHOOK_TEST, {"webhook": str(row.id)})

    async def delete(self, session: AsyncSession, tenant_id: TenantId, endpoint_id: UUID) -> None:
        """Delete an endpoint with its deliveries; raises WebhookNotFound."""
        statement = (
            delete(WebhookEndpoint)
            .where(WebhookEndpoint.tenant_id == tenant_id, WebhookEndpoint.id == endpoint_id)
            .returning(WebhookEndpoint.id)
        )
        if await session.scalar(statement) is None:
            raise WebhookNotFound(endpoint_id)

    def _sealed(self, secret: str) -> bytes:
        return self.secrets.encrypt(SECRET_PURPOSE, secret.encode())


async def find_endpoint(
    session: AsyncSession, tenant_id: TenantId, endpoint_id: UUID, *, is_locked: bool = False
) -> WebhookEndpoint:
    """The row; raises WebhookNotFound. Locked, nobody else changes it or its deliveries' fates."""
    statement = select(WebhookEndpoint).where(
        WebhookEndpoint.tenant_id == tenant_id, WebhookEndpoint.id == endpoint_id
    )
    if is_locked:
        # Not stronger: a delivery that refers to it may be written meanwhile.
        statement = statement.with_for_update(key_share=True)
    row = await session.scalar(statement)
    if row is None:
        raise WebhookNotFound(endpoint_id)
    return row


async def disable(session: AsyncSession, row: WebhookEndpoint, reason: DisabledReason) -> None:
    """Send nothing more to an endpoint that is locked; what was on its way is cancelled."""
    now = await transaction_time(session)
    if reason is not DisabledReason.TENANT:  # whose own wish is recorded where it was uttered
        await record(
            session,
            Actor.system("webhooks"),
            "webhook.disabled",
            tenant_id=TenantId(row.tenant_id),
            target=Target("webhook", row.id, row.description or None),
            before={"is_enabled": True},
            after={"is_enabled": False, "reason": reason.value},
        )
    row.is_enabled, row.disabled_reason, row.disabled_at = False, reason, now
    await session.flush()
    await session.execute(
        update(WebhookDelivery)
        .where(
            WebhookDelivery.tenant_id == row.tenant_id,
            WebhookDelivery.endpoint_id == row.id,
            WebhookDelivery.status == DeliveryStatus.PENDING,
        )
        .values(status=DeliveryStatus.CANCELLED, finished_at=func.now()),
        execution_options={"synchronize_session": False},
    )
