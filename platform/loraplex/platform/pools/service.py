"""The worker registry: who may say they are a worker, and for how long it holds."""

from datetime import timedelta

import msgspec
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.engine.protocol.messages import PROTOCOL_VERSION
from loraplex.engine.protocol.workers import WorkerRegistration
from loraplex.platform.pools.errors import InvalidRegistration, UnknownWorker, WorkerSuperseded
from loraplex.platform.pools.repository import WorkerRepository

LEASE = timedelta(seconds=15)
"""Long beside the controller's own restart. Liveness is told by heartbeats, not by leases."""

EXPIRED_GRACE = timedelta(seconds=60)
"""How long a lost worker stays listed, for operators to see that it is lost."""


class WorkerRegistry:
    """Registers workers and renews their leases inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._workers = WorkerRepository(session)

    async def register(self, registration: WorkerRegistration) -> None:
        """Take a worker in. The newest incarnation of an id replaces any other."""
        if registration.protocol_version != PROTOCOL_VERSION:
            raise InvalidRegistration(
                f"The worker speaks version {registration.protocol_version} of the protocol; "
                f"this platform speaks {PROTOCOL_VERSION}.",
                field="protocol_version",
                rule=f"must be {PROTOCOL_VERSION}",
                value=registration.protocol_version,
            )
        await self._workers.put(registration, LEASE)

    async def renew(self, worker_id: str, incarnation: str) -> None:
        """Raises UnknownWorker when it must register again, WorkerSuperseded when it must end."""
        if await self._workers.renew(worker_id, incarnation, LEASE):
            return
        if await self._workers.incarnation_of(worker_id) is None:
            raise UnknownWorker(f"Worker {worker_id} is not registered.")
        raise WorkerSuperseded(f"A newer incarnation of worker {worker_id} has registered.")

    async def deregister(self, worker_id: str, incarnation: str) -> None:
        """Forget an incarnation; idempotent."""
        await self._workers.remove(worker_id, incarnation)

    async def sweep(self) -> list[str]:
        """Forget workers lost for a while; their ids."""
        return await self._workers.remove_expired(EXPIRED_GRACE)


def parse_registration(body: bytes) -> WorkerRegistration:
    """Raises InvalidRegistration."""
    try:
        return msgspec.json.decode(body, type=WorkerRegistration)
    except msgspec.DecodeError as error:
        raise InvalidRegistration(f"The registration cannot be read: {error}") from error
