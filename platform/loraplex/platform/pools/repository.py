"""The `workers` table. Leases are judged by the database's clock alone."""

import logging
from datetime import timedelta

import msgspec
from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.engine.protocol.workers import WorkerRegistration
from loraplex.platform.pools.models import Worker

log = logging.getLogger(__name__)


class RegisteredWorker(msgspec.Struct, frozen=True):
    """A row: what the worker announced, and whether its lease is live."""

    registration: WorkerRegistration
    has_lease: bool


class WorkerRepository:
    """Never commits: the caller's unit of work does."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def put(self, registration: WorkerRegistration, lease: timedelta) -> None:
        """Insert the worker, or replace its former incarnation."""
        values = {
            "incarnation": registration.incarnation,
            "pool": registration.pool,
            "role": registration.role.value,
            "base_name": registration.base_name,
            "registration": msgspec.to_builtins(registration),
            "lease_expires_at": func.now() + lease,
        }
        row = insert(Worker).values(worker_id=registration.worker_id, **values)
        await self._session.execute(
            row.on_conflict_do_update(index_elements=["worker_id"], set_=values)
        )

    async def renew(self, worker_id: str, incarnation: str, lease: timedelta) -> bool:
        """Extend the lease; whether this incarnation had a row."""
        renewed = await self._session.scalar(
            update(Worker)
            .where(Worker.worker_id == worker_id, Worker.incarnation == incarnation)
            .values(lease_expires_at=func.now() + lease)
            .returning(Worker.worker_id)
        )
        return renewed is not None

    async def incarnation_of(self, worker_id: str) -> str | None:
        """The registered incarnation, whatever its lease."""
        return await self._session.scalar(
            select(Worker.incarnation).where(Worker.worker_id == worker_id)
        )

    async def remove(self, worker_id: str, incarnation: str) -> None:
        """Delete the incarnation's row; a newer one's stays."""
        await self._session.execute(
            delete(Worker).where(Worker.worker_id == worker_id, Worker.incarnation == incarnation)
        )

    async def remove_expired(self, grace: timedelta) -> list[str]:
        """Delete workers whose lease ended longer ago than `grace`; their ids."""
        removed = await self._session.scalars(
            delete(Worker)
            .where(Worker.lease_expires_at < func.now() - grace)
            .returning(Worker.worker_id)
        )
        return list(removed)

    async def all(self) -> list[RegisteredWorker]:
        """Every registered worker, those with a lapsed lease included, by id."""
        rows = await self._session.execute(
            select(Worker.registration, Worker.lease_expires_at > func.now()).order_by(
                Worker.worker_id
            )
        )
        return [
            RegisteredWorker(registration, has_lease)
            for value, has_lease in rows
            if (registration := _read(value)) is not None
        ]


def _read(value: dict[str, object]) -> WorkerRegistration | None:
    """None for what another version of the platform wrote: it must not hide the other workers."""
    try:
        return msgspec.convert(value, WorkerRegistration)
    except msgspec.ValidationError as error:
        log.warning("a registered worker cannot be understood: %s", error)
        return None
