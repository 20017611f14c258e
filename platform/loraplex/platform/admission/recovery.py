"""Settles what gateways that are gone left unsettled, by what the workers counted.

A reservation whose lease has lapsed is looked at twice, a pause apart: after an outage of Postgres
its own gateway, if it lives, settles or renews it in between. Whoever claims it then asks all
workers of its base. What still runs is left alone, since somebody keeps it alive. Once every
sequence has ended it is settled by the workers' counts; what no worker knows within the deadline is
settled as lost, with what is known of it, which is nothing where the worker died too.

A gateway that was merely slow does no harm: the ledger's row decides, and the second changes
nothing.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

import msgspec
from sqlalchemy import Interval, bindparam, func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from structlog import get_logger

from loraplex.platform.admission.models import Reservation
from loraplex.platform.admission.service import LEASE, Admission
from loraplex.platform.admission.verdicts import Lapsed, Outcome, Verdict, judge
from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.price_book import price_by_id
from loraplex.platform.metering.sequences import CallUsage
from loraplex.platform.metering.service import SettledBy, Usage
from loraplex.platform.metrics import RECOVERED
from loraplex.platform.pools.fleet import WorkerFleet
from loraplex.platform.tenancy.identity import TenantId

LOST_AFTER = timedelta(seconds=120)
"""How long after its lease a request may wait for a worker that knows of it."""
ABANDONED_AFTER = timedelta(hours=2)
"""When no gateway of the base has come. Workers keep counts for an hour: they know no more."""
PAUSES_PER_LEASE: Final = 3
BATCH: Final = 200
GATEWAY_LOST: Final = "gateway_lost"

CLAIM = text("SELECT gateway.claim_lapsed(:base, :pause, :lost_after, :most)").bindparams(
    bindparam("pause", type_=Interval), bindparam("lost_after", type_=Interval)
)

AWAY = (DBAPIError, PoolTimeout, OSError)
"""What a Postgres that is away may raise."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose bill it is."""

    tenant_id: TenantId
    key_id: UUID | None
    member_id: UUID | None


class Recovery:
    """One gateway's part: any number of gateways share the work."""

    def __init__(
        self,
        database: Database,
        admission: Admission,
        fleet: WorkerFleet,
        base_model: str,
        *,
        lease: timedelta = LEASE,
        lost_after: timedelta = LOST_AFTER,
    ) -> None:
        self._database = database
        self._admission = admission
        self._fleet = fleet
        self._base_model = base_model
        self._pause = lease / PAUSES_PER_LEASE
        self._lost_after = lost_after

    async def keep_recovering(self) -> None:
        """Look again and again, until cancelled; an unreachable database is tried again."""
        while True:
            await asyncio.sleep(self._pause.total_seconds() / 2)
            try:
                while await self.recover() == BATCH:
                    pass
            except AWAY as error:
                log.warning("nothing_recovered", error=type(error).__name__)
            except Exception:  # a defect, and without this loop nobody's bills would be written
                log.exception("nothing_recovered")

    async def recover(self) -> int:
        """Settle what can be settled of the oldest; how many were looked at."""
        claimed = await self._claim()
        if not claimed:
            return 0
        names = [name for lapsed in claimed for name in lapsed.sequence_ids]
        recount = await self._fleet.recount(self._base_model, names)
        for lapsed in claimed:
            verdict = judge(lapsed, recount)
            if verdict is not None and await self._settle(lapsed, verdict):
                self._fleet.forget(self._base_model, lapsed.sequence_ids)
        return len(claimed)

    async def _settle(self, lapsed: Lapsed, verdict: Verdict) -> bool:
        """One bill that cannot be written must not keep the others from being written."""
        try:
            await settle(self._database, self._admission, lapsed, verdict)
        except AWAY:
            raise
        except Exception:
            log.exception("not_recovered", request_id=lapsed.request_id)
            return False
        return True

    async def _claim(self) -> list[Lapsed]:
        async with self._database.unit_of_work() as session:
            rows = await session.scalars(
                CLAIM,
                {
                    "base": self._base_model,
                    "pause": self._pause,
                    "lost_after": self._lost_after,
                    "most": BATCH,
                },
            )
            return [msgspec.convert(row, Lapsed) for row in rows]


async def settle(
    database: Database, admission: Admission, lapsed: Lapsed, verdict: Verdict
) -> None:
    """Write the bill, unless its gateway has done so by now."""
    async with database.unit_of_work(TenantId(lapsed.tenant_id)) as session:
        price = await price_by_id(session, lapsed.price_id)
    billed = verdict.used.billed
    owner = Owner(TenantId(lapsed.tenant_id), lapsed.api_key_id, lapsed.member_id)
    usage = Usage(
        request_id=lapsed.request_id,
        model=lapsed.model,
        base_model=lapsed.base_model,
        price=price,
        adapter_digest=lapsed.adapter_digest,
        adapter_id=lapsed.adapter_id,
        adapter_version=lapsed.adapter_version,
        prompt_tokens=billed.prompt_tokens,
        cached_tokens=billed.cached_tokens,
        output_tokens=billed.output_tokens,
        outcome=verdict.outcome,
        error_code=None if verdict.outcome is Outcome.COMPLETED else GATEWAY_LOST,
        admitted_at=lapsed.admitted_at,
        settled_by=SettledBy.RECOVERY,
    )
    await admission.settle(owner, usage)
    RECOVERED.labels(verdict.outcome).inc()
    log.warning(
        "recovered",
        request_id=lapsed.request_id,
        outcome=verdict.outcome,
        prompt_tokens=billed.prompt_tokens,
        output_tokens=billed.output_tokens,
    )


async def settle_abandoned(system: Database) -> int:
    """Settle as lost what no gateway of its base has come back for; how many there were."""
    is_abandoned = Reservation.expires_at < func.clock_timestamp() - ABANDONED_AFTER
    async with system.unit_of_work() as session:
        rows = (
            await session.scalars(
                select(Reservation)
                .where(is_abandoned, Reservation.base_model.is_not(None))
                .limit(BATCH)
            )
        ).all()
    admission = Admission(system, "nobody")
    settled = 0
    for row in rows:
        try:
            await settle(system, admission, lapsed_of(row), Verdict(Outcome.LOST, CallUsage()))
            settled += 1
        except AWAY:
            raise
        except Exception:  # one bill that cannot be written must not keep the others from it
            log.exception("not_recovered", request_id=row.request_id)
    return settled


def lapsed_of(row: Reservation) -> Lapsed:
    columns: Sequence[str] = Lapsed.__struct_fields__
    values = {name: getattr(row, name) for name in columns if name != "is_overdue"}
    return Lapsed(**values, is_overdue=True)
