"""Lets a request in, or not, and settles it when it ends: one statement and transaction each.

A reservation is a lease. The gateway that holds it renews it while the request runs; what a dead
gateway held lapses, holds no place among the concurrent requests any more, and is swept.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, delete, func, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncSession
from structlog import get_logger

from loraplex.platform.admission import budgets
from loraplex.platform.admission.demand import Admitted, Demand, Payer, Window
from loraplex.platform.admission.errors import REFUSALS, BudgetExhausted
from loraplex.platform.admission.models import Reservation
from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.service import Usage, entry_of
from loraplex.platform.tenancy.errors import TenantSuspended
from loraplex.platform.tenancy.principals import TenantPrincipal

LEASE = timedelta(seconds=30)
RENEW_SECONDS = 10

ADMIT: Final = "SELECT gateway.admit(%(tenant)s, %(request)s::jsonb, %(lease)s)"
SETTLE: Final = "SELECT gateway.settle(%(tenant)s, %(entry)s::jsonb)"
RENEW = text("SELECT gateway.renew_reservations(:gateway, :requests, :lease)").bindparams(
    bindparam("lease", LEASE)
)

log = get_logger(__name__)


class Admission:
    """One gateway's admissions. `gateway_id` is the running process's own, new at every start."""

    def __init__(self, database: Database, gateway_id: str) -> None:
        self._database = database
        self._gateway_id = gateway_id
        self._held: set[str] = set()

    async def admit(self, principal: TenantPrincipal, request_id: str, demand: Demand) -> Admitted:
        """Reserve what the request may use, of every limit of its tenant, model, member and key.

        Raises a LimitRefusal or TenantSuspended; nothing is reserved or counted then. What is
        admitted must be settled, however it ends.
        """
        request = msgspec.json.encode(
            {
                "request_id": request_id,
                "gateway_id": self._gateway_id,
                "api_key_id": principal.key_id,
                "member_id": principal.member_id,
                "model": demand.model,
                "model_name": demand.model_name,
                "base_model": demand.base_model,
                "adapter_digest": demand.adapter_digest,
                "adapter_id": demand.adapter_id,
                "adapter_version": demand.adapter_version,
                "weights_digest": demand.weights_digest,
                "price_id": demand.price.id,
                "prompt_tokens": demand.prompt_tokens,
                "max_output_tokens": demand.max_output_tokens,
                "hold_micros": demand.hold_micros,
            }
        )
        values = {"tenant": principal.tenant_id, "request": request.decode(), "lease": LEASE}
        answer = await self._database.statements.call(ADMIT, values)
        if answer["refusal"] is not None:
            raise await self._refusal(principal, answer)
        self._held.add(request_id)
        return Admitted(
            datetime.fromisoformat(answer["admitted_at"]), _windows(answer, is_admitted=True)
        )

    async def settle(self, payer: Payer, usage: Usage) -> None:
        """Write the ledger row and give back what was reserved: both or neither, once.

        However often it is called: the first call counts. When it fails the caller may try again;
        the place is given back by its lease meanwhile. Works on roles `app` and `system`.
        """
        self._held.discard(usage.request_id)
        entry = msgspec.json.encode(
            entry_of(usage, api_key_id=payer.key_id, member_id=payer.member_id)
        )
        has_news = await self._database.statements.call(
            SETTLE, {"tenant": payer.tenant_id, "entry": entry.decode()}
        )
        if has_news:
            await self._tell_of_budgets(payer)

    async def renew(self) -> None:
        """Renew the leases of this gateway's running requests."""
        if not self._held:
            return
        async with self._database.unit_of_work() as session:
            await session.execute(
                RENEW, {"gateway": self._gateway_id, "requests": sorted(self._held)}
            )

    async def keep_renewing(self) -> None:
        """Renew for ever, until cancelled; an unreachable database is tried again."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self.renew()
            except (DBAPIError, PoolTimeout) as error:
                log.warning("reservations_not_renewed", error=type(error).__name__)

    async def _refusal(self, principal: TenantPrincipal, answer: Mapping[str, Any]) -> Exception:
        refusal = answer["refusal"]
        if refusal["reason"] == "suspended":
            return TenantSuspended(principal.tenant_name)
        error = REFUSALS[refusal["reason"]](refusal, _windows(answer, is_admitted=False))
        if isinstance(error, BudgetExhausted):
            await self._tell_of_budgets(principal, error)
        return error

    async def _tell_of_budgets(self, payer: Payer, refusal: BudgetExhausted | None = None) -> None:
        """What fails here is told after the tenant's next request: the facts are still there."""
        try:
            async with self._database.unit_of_work(payer.tenant_id) as session:
                await budgets.tell(session, payer.tenant_id, refusal)
        except (DBAPIError, PoolTimeout) as error:
            log.warning("budgets_not_told", error=type(error).__name__)


def _windows(answer: Mapping[str, Any], *, is_admitted: bool) -> tuple[Window, ...]:
    """A request that was let in counts already, in a second that has just begun."""
    return tuple(
        Window(
            kind=one["kind"],
            limit=one["limit"],
            remaining=max(0, one["limit"] - one["used"] - (one["wanted"] if is_admitted else 0)),
            reset_seconds=61.0 if is_admitted else max(0.0, one["reset_seconds"]),
        )
        for one in answer["windows"]
    )


async def sweep_reservations(session: AsyncSession) -> int:
    """Delete lapsed reservations of every tenant (role `system`); how many there were."""
    lapsed = await session.scalars(
        delete(Reservation)
        .where(Reservation.expires_at < func.clock_timestamp())
        .returning(Reservation.request_id)
    )
    return len(lapsed.all())
