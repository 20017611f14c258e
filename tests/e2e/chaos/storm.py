"""What is done to a platform while it serves, at moments counted in requests."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from time import monotonic

from tests.e2e.chaos.fragile import GRACE_SECONDS, FragilePlatform, Gateway
from tests.soak import examples

CALM_REQUESTS = examples(60, 200)
"""Between two blows."""
READY_SECONDS = 600.0
AWAY_SECONDS = 0.7
"""How long Postgres stays away on its own, or nearly."""


class Storm:
    """Blow after blow, each while requests run.

    A blow waits until no more than one gateway is not ready, and the requests after it wait for it.

    Blows come in turn: the first four have something of each. A crash of Postgres
    may take what nobody waited for: reservations. Were a gateway killed in the same moment, nobody
    would know of its requests; so the next kill of a gateway comes some blows later.
    """

    def __init__(self, platform: FragilePlatform, requests: int, randomness: random.Random) -> None:
        self.done: Counter[str] = Counter()
        self.late: list[float] = []
        self._platform = platform
        self._randomness = randomness
        self._blows: list[Callable[[], Awaitable[None]]] = [
            self.kill_gateway_and_worker,
            self.restart_postgres,
            self.end_gateway_without_postgres,
            self.kill_worker,
            self.kill_gateway,
            self.crash_postgres,
            self.kill_worker,
            self.end_gateway,
        ]
        self._moments = list(range(CALM_REQUESTS, requests, CALM_REQUESTS))
        self._reached = 0
        self._begun = 0
        self._down: set[int] = set()
        self._changed = asyncio.Event()

    async def reached(self, number: int) -> None:
        """Request `number` is next: wait until every blow has begun that comes before it."""
        self._reached = max(self._reached, number)
        self._tell()
        due = sum(moment <= number for moment in self._moments)
        while self._begun < due:
            await self._changed.wait()

    def living(self, wanted: int) -> Gateway:
        """The gateway wanted, or the next one that is not down."""
        gateways = self._platform.gateways
        order = [(wanted + step) % len(gateways) for step in range(len(gateways))]
        return gateways[next((one for one in order if one not in self._down), order[0])]

    async def rage(self) -> None:
        """All blows, each when the requests have come to its moment."""
        for number, moment in enumerate(self._moments):
            await self._calm(len(self._platform.gateways) - 1)
            while self._reached < moment:
                await self._changed.wait()
            blow = self._blows[number % len(self._blows)]
            self.done[blow.__name__] += 1
            self._begun += 1
            self._tell()
            await blow()

    # Blows

    async def kill_gateway(self) -> None:
        number = self._pick()
        await asyncio.to_thread(self._platform.gateways[number].kill)
        self._start(number)

    async def kill_worker(self) -> None:
        worker = self._randomness.choice(self._platform.workers)
        await asyncio.to_thread(worker.kill)
        worker.start()

    async def kill_gateway_and_worker(self) -> None:
        await self.kill_worker()
        await self.kill_gateway()

    async def end_gateway(self) -> None:
        number = self._pick()
        began = monotonic()
        gateway = self._platform.gateways[number]
        gateway.tell_to_end()
        await self._ended(number, began)

    async def restart_postgres(self) -> None:
        await asyncio.to_thread(self._platform.postgres.stop)
        await asyncio.sleep(AWAY_SECONDS)
        await asyncio.to_thread(self._platform.postgres.start)

    async def crash_postgres(self) -> None:
        await asyncio.to_thread(self._platform.postgres.crash)
        await asyncio.to_thread(self._platform.postgres.start)

    async def end_gateway_without_postgres(self) -> None:
        """It cannot write its last bills: they are left to the others."""
        number = self._pick()
        await asyncio.to_thread(self._platform.postgres.stop)
        began = monotonic()
        self._platform.gateways[number].tell_to_end()
        await self._ended(number, began)
        await asyncio.to_thread(self._platform.postgres.start)

    # Keeping order

    def _pick(self) -> int:
        up = [one for one in range(len(self._platform.gateways)) if one not in self._down]
        number = self._randomness.choice(up)
        self._down.add(number)
        return number

    async def _ended(self, number: int, began: float) -> None:
        status = await asyncio.to_thread(self._platform.gateways[number].wait, 60)
        seconds = monotonic() - began
        if status != 0 or seconds > GRACE_SECONDS:
            self.late.append(seconds)
        self._start(number)

    def _start(self, number: int) -> None:
        self._platform.gateways[number].start()

    async def _calm(self, gateways: int) -> None:
        """Wait until so many gateways are ready."""
        deadline = monotonic() + READY_SECONDS
        while True:
            for number, gateway in enumerate(self._platform.gateways):
                if await asyncio.to_thread(gateway.is_ready):
                    self._down.discard(number)
                else:
                    self._down.add(number)
            if len(self._platform.gateways) - len(self._down) >= gateways:
                return
            assert monotonic() < deadline, self._platform.logs()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
