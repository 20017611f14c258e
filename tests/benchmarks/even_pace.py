"""A client that costs little: requests made up beforehand, at an even pace, over raw sockets.

It shares its machine's cores with what it measures, where httpx would take as long as a gateway.
"""

import asyncio
from time import perf_counter
from typing import Final

END_OF_HEAD: Final = b"\r\n\r\n"
END_OF_BODY: Final = b"0\r\n\r\n"
OK: Final = b"HTTP/1.1 200"


class Connection(asyncio.Protocol):
    """Asks one streamed request at a time; keeps its socket open for the next."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._asked_at = 0.0
        self._first_byte_at: float | None = None
        self._answered: asyncio.Future[float] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def ask(self, request: bytes) -> "asyncio.Future[float]":
        """Seconds to the first byte of the answer's body, told when the answer has ended."""
        assert self._transport is not None, "connected"
        self._received.clear()
        self._first_byte_at = None
        self._answered = asyncio.get_running_loop().create_future()
        self._asked_at = perf_counter()
        self._transport.write(request)
        return self._answered

    def data_received(self, data: bytes) -> None:
        now = perf_counter()
        self._received += data
        if self._answered is None or self._answered.done():
            return
        if self._first_byte_at is None:
            head, _, body = self._received.partition(END_OF_HEAD)
            if not body:
                return
            if not head.startswith(OK):
                self._answered.set_exception(RuntimeError(self._received.decode()))
                return
            self._first_byte_at = now
        if self._received.endswith(END_OF_BODY):
            self._answered.set_result(self._first_byte_at - self._asked_at)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error or ConnectionResetError("closed by the server"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def ask_evenly(
    port: int, request: bytes, *, requests_per_second: float, count: int
) -> list[float]:
    """Seconds to the first byte of each of `count` answers, from the moment each was sent.

    A request is sent when it is due, however many are under way. Raises for any answer but 200.
    """
    loop = asyncio.get_running_loop()
    idle: list[Connection] = []
    every: list[Connection] = []

    async def ask() -> float:
        if idle:
            connection = idle.pop()
        else:
            _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
            every.append(connection)
        seconds = await connection.ask(request)
        idle.append(connection)
        return seconds

    try:
        begun, tasks = perf_counter(), []
        for number in range(count):
            due = begun + number / requests_per_second
            await asyncio.sleep(max(0.0, due - perf_counter()))
            tasks.append(asyncio.create_task(ask()))
        return list(await asyncio.gather(*tasks))
    finally:
        for connection in every:
            connection.close()
