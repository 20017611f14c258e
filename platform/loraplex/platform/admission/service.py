"""Lets a request in, or not, and settles it when it ends: one statement and transaction each.

A reservation is a lease. The gateway that holds it renews it until the request is settled; what a
dead gateway held lapses, holds no place among the concurrent requests any more, and is settled by
another one (`recovery`).
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from sqlalchemy import Interval, bindparam, delete, func, text
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
RENEWALS_PER_LEASE = 3

ADMIT: Final = "SELECT gateway.admit(%(tenant)s, %(request)s::jsonb, %(lease)s)"
SETTLE: Final = "SELECT gateway.settle(%(tenant)s, %(entry)s::jsonb)"
RENEW = text("SELECT gateway.renew_reservations(:gateway, :requests, :lease)").bindparams(
    bindparam("lease", type_=Interval)
)

log = get_logger(__name__)


class Admission:
    """One gateway's admissions. `gateway_id` is the running process's own, new at every start."""

    def __init__(self, database: Database, gateway_id: str, lease: timedelta = LEASE) -> None:
        self._database = database
        self._gateway_id = gateway_id
        self._lease = lease
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
                "sequences": demand.sequences,
                "choices_per_prompt": demand.choices_per_prompt,
            }
        )
        values = {"tenant": principal.tenant_id, "request": request.decode(), "lease": self._lease}
        answer = await self._database.statements.call(ADMIT, values)
        if answer["refusal"] is not None:
            raise await self._refusal(principal, answer)
        self._held.add(request_id)
        return Admitted(
            datetime.fromisoformat(answer["admitted_at"]), _windows(answer, is_admitted=True)
        )

    async def settle(self, payer: Payer, usage: Usage) -> None:
        """Write the ledger row and give back what was reserved: both or neither, once.

        However often it is called: the first call counts. When it fails the caller may try again,
        or `give_up`; the request is renewed meanwhile. Works on roles `app` and `system`.
        """
        entry = msgspec.json.encode(
            entry_of(usage, api_key_id=payer.key_id, member_id=payer.member_id)
        )
        has_news = await self._database.statements.call(
            SETTLE, {"tenant": payer.tenant_id, "entry": entry.decode()}
        )
        self._held.discard(usage.request_id)
        if has_news:
            await self._tell_of_budgets(payer)

    def give_up(self, request_id: str) -> None:
        """Let the request's lease lapse, unsettled: it is recovery's then."""
        self._held.discard(request_id)

    async def renew(self) -> None:
        """Renew the leases of this gateway's running requests."""
        if not self._held:
            return
        async with self._database.unit_of_work() as session:
            await session.execute(
                RENEW,
                {"gateway": self._gateway_id, "requests": sorted(self._held), "lease": self._lease},
            )

    async def keep_renewing(self) -> None:
        """Renew for ever, until cancelled; an unreachable database is tried again."""
        while True:
            await asyncio.sleep(self._lease.total_seconds() / RENEWALS_PER_LEASE)
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
    """Delete lapsed reservations that nobody can settle (role `system`); how many there were.

    They are of gateways of an older release, which did not write down whom to bill for what.
    """
    lapsed = await session.scalars(
        delete(Reservation)
        .where(Reservation.expires_at < func.clock_timestamp(), Reservation.base_model.is_(None))
        .returning(Reservation.request_id)
    )
    return len(lapsed.all())
