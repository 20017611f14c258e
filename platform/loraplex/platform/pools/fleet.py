"""All workers as one gateway sees them: who is there, who is chosen, what became of requests."""

import asyncio
import logging
import random
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing

import msgspec
import zmq.asyncio

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import NoWorkerAvailable, WorkerLost
from loraplex.engine.protocol.generation import GenerationRequest, RequestOutput
from loraplex.engine.protocol.workers import Role, WorkerLimits, WorkerRegistration
from loraplex.platform.database.sessions import Database
from loraplex.platform.pools.connections import WorkerConnection
from loraplex.platform.pools.errors import FleetOverloaded
from loraplex.platform.pools.recounting import Placement, Recount, combine
from loraplex.platform.pools.repository import RegisteredWorker, WorkerRepository
from loraplex.platform.pools.sockets import GatewayIdentity
from loraplex.platform.pools.views import WorkerView
from loraplex.platform.routing import policy
from loraplex.platform.secrets import SecretKeys

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
POLL_DEADLINE_SECONDS = 5.0
TICK_SECONDS = 0.25
WORKER_WAIT_SECONDS = 2.0
"""How long a request waits for a worker when none is live: enough for one that is just coming up,
short enough to answer 503 while the client still listens."""
RETRY_AFTER_SECONDS = 5
MAX_WORKER_REQUESTS = 1024
OVERLOAD_RETRY_SECONDS = 2


class WorkerFleet:
    """Runs on the event loop that starts it. Needs the database only to learn of new workers."""

    def __init__(
        self,
        database: Database,
        secrets: SecretKeys,
        gateway_id: str,
        is_drained: Callable[[str], bool] = lambda pool: False,
        *,
        max_worker_requests: int = MAX_WORKER_REQUESTS,
    ) -> None:
        """`gateway_id` is unique among running gateways; at most 255 bytes.

        `is_drained` says of a pool whether new requests keep away from its workers right now.
        `max_worker_requests` bounds the queue before each worker, of all gateways together.
        """
        self._max_worker_requests = max_worker_requests
        self._database = database
        self._is_drained = is_drained
        self._gateway = GatewayIdentity(gateway_id, secrets.gateway_curve())
        self._connections: dict[str, WorkerConnection] = {}
        self._news = asyncio.Event()
        self._randomness = random.Random()  # noqa: S311  ties need no secrecy
        self._context: zmq.asyncio.Context | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._database_is_away = False
        self._ticked_at = 0.0

    async def start(self) -> None:
        """Look for workers once, then keep looking. Succeeds while the database is away."""
        self._context = zmq.asyncio.Context()
        self._ticked_at = time.monotonic()
        await self._look_for_workers()
        self._tasks = [
            asyncio.create_task(_every(POLL_SECONDS, self._look_for_workers)),
            asyncio.create_task(_every(TICK_SECONDS, self._tick)),
        ]

    async def stop(self) -> None:
        """End what is still running with WorkerLost, and disconnect."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in self._connections.values():
            connection.close("is out of reach: the gateway is shutting down")
        self._connections.clear()
        if self._context is not None:
            await asyncio.to_thread(self._context.term)

    async def generate(
        self, base_name: str, request: GenerationRequest, placement: Placement
    ) -> AsyncGenerator[RequestOutput, None]:
        """Run a request on the least loaded worker; yields outputs until a finish_reason.

        `placement` learns where. Closing the generator cancels the request on its worker. A worker
        that is lost before its first output is replaced by another one, once. Raises
        NoWorkerAvailable, WorkerLost or what the worker refused the request with.
        """
        connection = await self._wait_for_worker(base_name, request)
        placement.worker_ids.append(connection.registration.worker_id)
        has_output = False
        try:
            async with aclosing(connection.generate(request)) as outputs:
                async for output in outputs:
                    has_output = True
                    yield output
            return
        except WorkerLost:
            substitute = self._choose(base_name, request, besides=connection)
            if has_output or substitute is None:
                raise
        placement.worker_ids.append(substitute.registration.worker_id)
        again = msgspec.structs.replace(request, attempt=request.attempt + 1)
        async with aclosing(substitute.generate(again)) as outputs:
            async for output in outputs:
                yield output

    def acknowledge(self, billed: Mapping[str, Placement]) -> None:
        """Tell workers that these requests' bill is written; never waits."""
        by_worker: defaultdict[str, list[str]] = defaultdict(list)
        for request_id, placement in billed.items():
            for worker_id in placement.worker_ids:
                by_worker[worker_id].append(request_id)
        for worker_id, request_ids in by_worker.items():
            if connection := self._connections.get(worker_id):
                connection.acknowledge(request_ids)

    async def recount(self, base_name: str, request_ids: Sequence[str]) -> Recount:
        """Ask every worker of a base what became of these requests, of whichever gateway."""
        asked = [one for one in self._connections.values() if one.serves(base_name)]
        return combine(await asyncio.gather(*(one.recount(request_ids) for one in asked)))

    def forget(self, base_name: str, request_ids: Sequence[str]) -> None:
        """Tell every worker of a base that these requests are billed."""
        for one in self._connections.values():
            if one.serves(base_name):
                one.acknowledge(request_ids)

    def foretell(
        self, base_name: str, adapters: Sequence[AdapterRef], *, everywhere: bool = False
    ) -> None:
        """Have adapters brought near for requests that may come; never waits.

        Unless `everywhere`, only the worker is told that the next request would go to. Another
        one that gets it finds the file on the disk, which all workers of a machine share.
        """
        routable = self._routable(base_name)
        for one in routable if everywhere else self._likely(routable):
            one.foretell(adapters)

    def check_room(self, base_name: str, sequences: int) -> None:
        """Raise FleetOverloaded where so many more would wait longer than a client does.

        An idle worker takes any number: what one request asks for may come at once.
        """
        loads = [one.candidate().load_requests for one in self._routable(base_name)]
        least = min(loads, default=0)
        if least > 0 and least + sequences > self._max_worker_requests:
            raise FleetOverloaded(base_name, self._max_worker_requests, OVERLOAD_RETRY_SECONDS)

    def limits(self, base_name: str) -> WorkerLimits | None:
        """What the largest live worker can hold; None while there is none."""
        limits = [one.registration.limits for one in self._routable(base_name)]
        return max(limits, key=lambda one: min(one.max_model_tokens, one.pool_tokens), default=None)

    def workers(self) -> list[WorkerView]:
        """Every worker this gateway knows of, by id."""
        return [self._connections[worker_id].view() for worker_id in sorted(self._connections)]

    # Choosing

    async def _wait_for_worker(
        self, base_name: str, request: GenerationRequest
    ) -> WorkerConnection:
        try:
            async with asyncio.timeout(WORKER_WAIT_SECONDS):
                while (connection := self._choose(base_name, request)) is None:
                    await self._news.wait()
        except TimeoutError:
            raise NoWorkerAvailable(
                f"No worker takes requests for {base_name} right now.",
                retry_after_seconds=RETRY_AFTER_SECONDS,
            ) from None
        return connection

    def _choose(
        self,
        base_name: str,
        request: GenerationRequest,
        besides: WorkerConnection | None = None,
    ) -> WorkerConnection | None:
        routable = [one for one in self._routable(base_name) if one is not besides]
        tokens = len(request.prompt_token_ids) + request.sampling.max_tokens
        chosen = policy.choose([one.candidate() for one in routable], tokens, self._randomness)
        return self._connections[chosen.worker_id] if chosen else None

    def _likely(self, routable: list[WorkerConnection]) -> list[WorkerConnection]:
        """The worker that the next request would go to."""
        chosen = policy.choose([one.candidate() for one in routable], 0, self._randomness)
        return [self._connections[chosen.worker_id]] if chosen else []

    def _routable(self, base_name: str) -> list[WorkerConnection]:
        return [
            one
            for one in self._connections.values()
            if one.life.is_routable
            and one.serves(base_name)
            and one.registration.role is Role.UNIFIED
            and not self._is_drained(one.registration.pool)
        ]

    def _tell_news(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    # Keeping up with the registry

    async def _look_for_workers(self) -> None:
        """Learn of new workers. While the database is away, the known ones are all there are."""
        try:
            async with (
                asyncio.timeout(POLL_DEADLINE_SECONDS),
                self._database.unit_of_work() as session,
            ):
                rows = await WorkerRepository(session).all()
        except Exception as error:
            if not self._database_is_away:
                log.warning("the worker registry cannot be read: %r", error)
            self._database_is_away = True
            return
        self._database_is_away = False
        self._follow(rows)

    def _follow(self, rows: list[RegisteredWorker]) -> None:
        leased = {row.registration.worker_id: row.registration for row in rows if row.has_lease}
        registered = {row.registration.incarnation for row in rows}
        for worker_id, connection in list(self._connections.items()):
            incarnation, registration = connection.registration.incarnation, leased.get(worker_id)
            if registration and registration.incarnation != incarnation:
                connection.close("was replaced by a new incarnation")
            elif incarnation not in registered and not connection.life.is_heard:
                # A worker that is heard lives, even if its lease lapsed with a dead controller.
                connection.close("is gone")
            if connection.life.is_closed:
                del self._connections[worker_id]
        for worker_id, registration in leased.items():
            if worker_id not in self._connections:
                self._connections[worker_id] = self._connect(registration)

    def _connect(self, registration: WorkerRegistration) -> WorkerConnection:
        assert self._context is not None, "the fleet has not been started"
        return WorkerConnection(self._context, registration, self._gateway, on_news=self._tell_news)

    async def _tick(self) -> None:
        """Look after every connection, and notice when this event loop was itself held up."""
        now = time.monotonic()
        late_seconds = now - self._ticked_at - TICK_SECONDS
        self._ticked_at = now
        for connection in list(self._connections.values()):
            if late_seconds > TICK_SECONDS:  # nothing could be heard meanwhile
                connection.life.forgive(late_seconds)
            connection.tick()


async def _every(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    """Whatever fails is tried again: without these loops requests could wait for ever."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await work()
        except Exception:
            log.exception("the fleet could not be looked after")
