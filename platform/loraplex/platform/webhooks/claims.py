"""Takes due deliveries, one an endpoint, and records how each try went. On role `system`.

A claim is a lease: whoever raised a delivery's `attempts` to N may record try N. A dispatcher that
dies with a claim leaves a delivery that is due again when the lease ends, and a receiver that may
get one message twice; its id says so.
"""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.database.clock import transaction_time
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.webhooks.endpoints import disable
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.events import emit
from loraplex.platform.webhooks.models import (
    DeliveryStatus,
    DisabledReason,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from loraplex.platform.webhooks.schedule import MAX_ATTEMPTS, delay_after

LEASE = timedelta(seconds=60)
"""Longer than a try can take."""
LOOKED_AT = 200
GIVEN_UP_IN_A_ROW = 5
"""So many deliveries given up without one that arrived, and an endpoint is disabled."""
GONE = 410
"""A receiver's own word that it wants no more."""


@dataclass(frozen=True)
class Claim:
    """One delivery to try now, and everything that is needed for it."""

    tenant_id: TenantId
    delivery_id: UUID
    endpoint_id: UUID
    number: int
    url: str
    sealed_secrets: Sequence[bytes]
    """Those that sign, the newest first."""
    event_id: UUID
    event_type: str
    data: dict[str, object]
    happened_at: datetime


@dataclass(frozen=True)
class Try:
    """What came of one call."""

    started_at: datetime
    milliseconds: int
    status_code: int | None = None
    response: str | None = None
    error: str | None = None
    retry_after_seconds: int | None = None

    @property
    def has_arrived(self) -> bool:
        return self.status_code is not None and 200 <= self.status_code < 300


@dataclass(frozen=True)
class Recorded:
    """What a try led to: the delivery's status, and why its endpoint was disabled, if it was."""

    status: DeliveryStatus
    disabled: DisabledReason | None = None


async def claim_due(
    session: AsyncSession, room: int, busy: Collection[UUID], tenant_room: "TenantRoom"
) -> list[Claim]:
    """Up to `room` deliveries that are due, the longest due first.

    An endpoint gets one at a time, so that a healthy one gets its events in order; those in
    `busy` get none. `tenant_room` keeps one tenant from taking every place.
    """
    due = (
        select(WebhookDelivery, WebhookEndpoint, WebhookEvent)
        .join(WebhookEndpoint, WebhookEndpoint.id == WebhookDelivery.endpoint_id)
        .join(WebhookEvent, WebhookEvent.id == WebhookDelivery.event_id)
        .where(
            WebhookDelivery.status == DeliveryStatus.PENDING,
            WebhookDelivery.next_attempt_at <= func.now(),
            WebhookDelivery.endpoint_id.not_in(busy),
            WebhookDelivery.tenant_id.not_in(tenant_room.full()),
        )
        .order_by(WebhookDelivery.next_attempt_at, WebhookDelivery.id)
        .limit(LOOKED_AT)
        .with_for_update(of=WebhookDelivery, skip_locked=True)
    )
    chosen: dict[UUID, tuple[WebhookDelivery, WebhookEndpoint, WebhookEvent]] = {}
    for delivery, endpoint, event in await session.execute(due):
        if len(chosen) == room:
            break
        if endpoint.id not in chosen and tenant_room.take(endpoint.tenant_id):
            chosen[endpoint.id] = (delivery, endpoint, event)
    if not chosen:
        return []
    ids = [delivery.id for delivery, _, _ in chosen.values()]
    await session.execute(
        update(WebhookDelivery)
        .where(WebhookDelivery.id.in_(ids))
        .values(attempts=WebhookDelivery.attempts + 1, next_attempt_at=func.now() + LEASE),
        execution_options={"synchronize_session": False},
    )
    now = await transaction_time(session)
    return [
        Claim(
            tenant_id=TenantId(endpoint.tenant_id),
            delivery_id=delivery.id,
            endpoint_id=endpoint.id,
            number=delivery.attempts + 1,
            url=endpoint.url,
            sealed_secrets=_sealed_secrets(endpoint, now),
            event_id=event.id,
            event_type=event.type,
            data=event.data,
            happened_at=event.created_at,
        )
        for delivery, endpoint, event in chosen.values()
    ]


class TenantRoom:
    """How many calls each tenant may have under way at once."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: dict[UUID, int] = {}

    def full(self) -> list[UUID]:
        return [tenant for tenant, taken in self._taken.items() if taken >= self._limit]

    def take(self, tenant_id: UUID) -> bool:
        taken = self._taken.get(tenant_id, 0)
        if taken >= self._limit:
            return False
        self._taken[tenant_id] = taken + 1
        return True

    def give_back(self, tenant_id: UUID) -> None:
        left = self._taken[tenant_id] - 1
        if left:
            self._taken[tenant_id] = left
        else:
            del self._taken[tenant_id]


async def record(
    session: AsyncSession, claim: Claim, outcome: Try, chance: random.Random
) -> Recorded | None:
    """Write the try down and decide what is next; None when the claim was lost meanwhile."""
    # The endpoint first, as everybody locks them: a disabling cannot come in between.
    locked = (
        select(WebhookEndpoint)
        .where(WebhookEndpoint.id == claim.endpoint_id)
        .with_for_update(key_share=True)
    )
    endpoint = await session.scalar(locked)
    if endpoint is None:
        return None  # deleted, and its deliveries with it
    await _write_down(session, claim, outcome)
    status, wait = DeliveryStatus.DELIVERED, None
    if not outcome.has_arrived:
        wait = delay_after(claim.number, chance, outcome.retry_after_seconds)
        is_given_up = wait is None or outcome.status_code == GONE
        status = DeliveryStatus.FAILED if is_given_up else DeliveryStatus.PENDING
    if not await _settle(session, claim, status, wait or LEASE):
        return None
    return Recorded(status, await _count(session, endpoint, claim, outcome, status))


async def _count(
    session: AsyncSession,
    endpoint: WebhookEndpoint,
    claim: Claim,
    outcome: Try,
    status: DeliveryStatus,
) -> DisabledReason | None:
    """Keep the endpoint's count of failures, and disable it when that is too high; why, if so."""
    if status is DeliveryStatus.DELIVERED:
        endpoint.consecutive_failures = 0
    # What its owner has tried again by hand was counted when it was given up.
    if status is not DeliveryStatus.FAILED or claim.number > MAX_ATTEMPTS:
        return None
    endpoint.consecutive_failures += 1
    reason = None
    if outcome.status_code == GONE:
        reason = DisabledReason.GONE
    elif endpoint.consecutive_failures >= GIVEN_UP_IN_A_ROW:
        reason = DisabledReason.FAILURES
    if reason is None or not endpoint.is_enabled:
        return None
    await disable(session, endpoint, reason)
    data = {"webhook": str(endpoint.id), "url": endpoint.url, "reason": reason.value}
    await emit(session, TenantId(endpoint.tenant_id), EventType.WEBHOOK_DISABLED, data)
    return reason


async def _write_down(session: AsyncSession, claim: Claim, outcome: Try) -> None:
    statement = insert(WebhookAttempt).values(
        tenant_id=claim.tenant_id,
        delivery_id=claim.delivery_id,
        number=claim.number,
        started_at=outcome.started_at,
        milliseconds=outcome.milliseconds,
        status_code=outcome.status_code,
        response=outcome.response,
        error=outcome.error,
    )
    await session.execute(statement.on_conflict_do_nothing())


async def _settle(
    session: AsyncSession, claim: Claim, status: DeliveryStatus, wait: timedelta
) -> bool:
    is_pending = status is DeliveryStatus.PENDING
    statement = (
        update(WebhookDelivery)
        .where(
            WebhookDelivery.id == claim.delivery_id,
            WebhookDelivery.attempts == claim.number,
            WebhookDelivery.status == DeliveryStatus.PENDING,
        )
        .values(
            status=status,
            next_attempt_at=func.now() + wait,
            finished_at=None if is_pending else func.now(),
        )
        .returning(WebhookDelivery.id)
    )
    return await session.scalar(statement) is not None


def _sealed_secrets(endpoint: WebhookEndpoint, now: datetime) -> Sequence[bytes]:
    expires_at, previous = endpoint.previous_secret_expires_at, endpoint.previous_sealed_secret
    if previous is None or expires_at is None or expires_at <= now:
        return (endpoint.sealed_secret,)
    return (endpoint.sealed_secret, previous)
