"""Starts children in stages, runs programs to their end between them, stops all in reverse."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum
from pathlib import Path

from loraplex.platform.embedded.child import Child, Report, describe_status, end, spawn
from loraplex.platform.embedded.errors import ServiceUnavailable
from loraplex.platform.embedded.leftovers import ChildRecords
from loraplex.platform.embedded.private_files import private_dir
from loraplex.platform.embedded.processes import Command, Service, log_tail

STOP_SECONDS = 16.0
"""From the first signal until everything is gone or killed; probes in flight may add a few."""
RESERVED_SECONDS = 1.0
"""What each earlier stage keeps of that: gateways, the last stage, have streams to end."""


class Stage(IntEnum):
    """What a child stands on is in an earlier stage; the latest is stopped first."""

    SERVICES = 0
    PROCESSES = 1
    GATEWAYS = 2


class Supervisor:
    """The children of one data directory. Knows nothing of what they are."""

    def __init__(self, run_dir: Path, log_dir: Path, report: Report) -> None:
        self.report = report
        self._records = ChildRecords(run_dir)
        self._log_dir = private_dir(log_dir)
        self._stages: dict[Stage, list[Child]] = {}
        self._programs: set[asyncio.subprocess.Process] = set()
        self._hurry = asyncio.Event()

    def launch(self, stage: Stage, services: Sequence[Service]) -> list[Child]:
        """Start children side by side; those of one stage are stopped side by side too."""
        started = [
            Child(service, self._log_dir, self._records, self.report) for service in services
        ]
        self._stages.setdefault(stage, []).extend(started)
        for child in started:
            child.start()
        return started

    async def run(self, name: str, command: Command) -> None:
        """Run a program to its end; ServiceUnavailable with the end of its log if it fails."""
        log_file = self._log_dir / f"{name}.log"
        start_bytes = log_file.stat().st_size if log_file.exists() else 0
        process = await spawn(command, log_file)
        self._programs.add(process)
        self._records.remember(name, process.pid)
        try:
            status = await process.wait()
        finally:
            await end(process, command.stop_signal, grace_seconds=3)
            self._programs.discard(process)
            self._records.forget(name)
        if status != 0:
            raise ServiceUnavailable(
                f"{name} ended with {describe_status(status)}. Its log {log_file} ends:\n"
                f"{log_tail(log_file, start_bytes)}",
                value=name,
            )

    def hurry(self) -> None:
        """Stop waiting for children that are asked to end."""
        self._hurry.set()

    async def stop(self) -> None:
        """End every child, the last stage first, within STOP_SECONDS; leaves none behind."""
        deadline = time.monotonic() + STOP_SECONDS
        for stage in sorted(self._stages, reverse=True):
            children = self._stages[stage]
            grace_seconds = max(
                RESERVED_SECONDS, deadline - time.monotonic() - RESERVED_SECONDS * stage
            )
            grace_seconds = 0.0 if self._hurry.is_set() else grace_seconds
            await asyncio.gather(*(child.stop(grace_seconds) for child in children))
            if children:
                self.report(f"stopped {', '.join(child.service.name for child in children)}")


async def supervise(
    run_dir: Path, log_dir: Path, report: Report, start: Callable[[Supervisor], Awaitable[str]]
) -> None:
    """Run `start`, print what it returns, and stay until SIGINT or SIGTERM; then stop everything.

    Whatever `start` raises is raised again once all that it had started is stopped. A second
    signal ends the children at once.
    """
    supervisor = Supervisor(run_dir, log_dir, report)
    stopping = asyncio.Event()

    def on_signal() -> None:
        if stopping.is_set():
            supervisor.hurry()
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    starting = asyncio.ensure_future(start(supervisor))
    stop = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({starting, stop}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            print(starting.result(), flush=True)  # noqa: T201 (what a person waits for)
            await stop
        supervisor.report("stopping")
    finally:
        starting.cancel()
        stop.cancel()
        await asyncio.wait({starting, stop})
        await supervisor.stop()
    supervisor.report("stopped")
