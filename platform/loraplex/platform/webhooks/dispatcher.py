"""Sends what is due, for ever: beside the controller's listener, not as jobs.

A receiver may take fifteen seconds to answer, and a job's process does one thing at a time: as
jobs, one tenant's slow server would keep everybody's uploads waiting. Here it costs a coroutine.
"""

import asyncio
import random
from contextlib import AsyncExitStack
from uuid import UUID

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from structlog import get_logger

from loraplex.platform.database.notifications import listen, woken
from loraplex.platform.database.sessions import Database
from loraplex.platform.metrics import WEBHOOK_ATTEMPTS, WEBHOOKS_DISABLED
from loraplex.platform.outbound.client import OutboundClient
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.webhooks.claims import (
    Claim,
    Recorded,
    TenantRoom,
    Try,
    claim_due,
    record,
)
from loraplex.platform.webhooks.models import DeliveryStatus
from loraplex.platform.webhooks.sending import send

CHANNEL = "loraplex_webhooks"
CALLS_AT_ONCE = 64
CALLS_OF_A_TENANT = 4
POLL_SECONDS = 2.0
"""How late a retry may begin, or a message whose notification was missed."""
RETRY_SECONDS = 0.5

log = get_logger(__name__)


async def run_dispatcher(database: Database, settings: Settings) -> None:
    """Send until cancelled; `database` is of role `system` and may come and go meanwhile.

    Any number of dispatchers may run. With one, an endpoint that answers gets its events in their
    order; what failed comes later, and what is sent after it does not wait.
    """
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(OutboundClient.from_settings(settings))
        dispatcher = Dispatcher(database, SecretKeys.from_settings(settings), client)
        group = await stack.enter_async_context(asyncio.TaskGroup())
        group.create_task(listen(database, CHANNEL, dispatcher.wake))
        group.create_task(dispatcher.keep_sending())


class Dispatcher:
    """The calls under way, and the places for more."""

    def __init__(self, database: Database, secrets: SecretKeys, client: OutboundClient) -> None:
        self.wake = asyncio.Event()
        self._database = database
        self._secrets = secrets
        self._client = client
        self._busy: dict[UUID, asyncio.Task[None]] = {}
        self._room = TenantRoom(CALLS_OF_A_TENANT)
        self._chance = random.SystemRandom()

    async def keep_sending(self) -> None:
        try:
            while True:
                self.wake.clear()
                try:
                    started = await self.start_due()
                except (DBAPIError, PoolTimeout, OSError) as error:
                    log.warning("webhooks_not_looked_up", error=type(error).__name__)
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                if not started:
                    await woken(self.wake, POLL_SECONDS)
        finally:
            for task in self._busy.values():
                task.cancel()
            await asyncio.gather(*self._busy.values(), return_exceptions=True)

    async def start_due(self) -> int:
        """Begin what is due and has a place; how many calls that are."""
        if len(self._busy) >= CALLS_AT_ONCE:
            return 0
        async with self._database.unit_of_work() as session:
            free = CALLS_AT_ONCE - len(self._busy)
            claims = await claim_due(session, free, list(self._busy), self._room)
        for claim in claims:
            task = asyncio.create_task(self._deliver(claim))
            self._busy[claim.endpoint_id] = task
            task.add_done_callback(lambda _, claim=claim: self._finish(claim))  # type: ignore[misc]
        return len(claims)

    async def drain(self) -> None:
        """Wait for the calls that are under way now."""
        await asyncio.gather(*self._busy.values())

    async def _deliver(self, claim: Claim) -> None:
        try:
            outcome = await send(self._client, self._secrets, claim)
            async with self._database.unit_of_work() as session:
                recorded = await record(session, claim, outcome, self._chance)
        except (DBAPIError, PoolTimeout, OSError) as error:
            # The lease ends by itself, and the delivery is tried again.
            log.warning("webhook_not_recorded", error=type(error).__name__)
            return
        except Exception as error:
            log.error("webhook_failed", delivery=str(claim.delivery_id), exc_info=error)
            return
        WEBHOOK_ATTEMPTS.labels(outcome_of(outcome, recorded)).inc()
        if recorded is not None and recorded.disabled is not None:
            WEBHOOKS_DISABLED.labels(recorded.disabled.value).inc()
            log.warning("webhook_disabled", webhook=str(claim.endpoint_id))

    def _finish(self, claim: Claim) -> None:
        del self._busy[claim.endpoint_id]
        self._room.give_back(claim.tenant_id)
        self.wake.set()


def outcome_of(outcome: Try, recorded: Recorded | None) -> str:
    """A few words for a metric: what came back, and whether that was the end of it."""
    if outcome.has_arrived:
        return "delivered"
    came = "no_answer" if outcome.status_code is None else f"{outcome.status_code // 100}xx"
    is_given_up = recorded is not None and recorded.status is DeliveryStatus.FAILED
    return f"{came}_given_up" if is_given_up else came
