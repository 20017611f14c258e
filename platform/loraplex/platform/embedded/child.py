"""Keeps one child running: starts it, probes it, starts it again with back-off, ends it."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loraplex.platform.embedded.errors import ServiceUnavailable
from loraplex.platform.embedded.leftovers import ChildRecords
from loraplex.platform.embedded.processes import (
    PROBE_PAUSE_SECONDS,
    Command,
    NotReady,
    Service,
    guarded,
    kill_group,
    log_tail,
)

FIRST_BACK_OFF_SECONDS = 0.1
LONGEST_BACK_OFF_SECONDS = 10.0
STEADY_SECONDS = 20.0
"""A child that ran this long was well: its next end counts as the first one."""
QUICK_ENDS_THAT_FAIL = 4
"""A start-up that waits for a child gives up when it ended this often without being steady."""
PROBE_EVERY_SECONDS = 5.0
SILENT_SECONDS = 60.0
"""A running child that fails its probe for this long hangs; a busy machine alone is faster."""
LONGEST_LOG_BYTES = 32 * 1024 * 1024

Report = Callable[[str], None]


async def spawn(command: Command, log_file: Path) -> asyncio.subprocess.Process:
    """Start a program, in a session of its own, that ends when this process dies.

    Must be called from the main thread: the kernel ties the request to the thread that forks.
    """
    with log_file.open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *guarded(command),
            env=dict(command.env),
            cwd=command.cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Its own session: a Ctrl-C in the terminal reaches the supervisor alone, which then
            # ends the children in order.
            start_new_session=True,
            pass_fds=command.pass_fds,
        )


class Child:
    """One service under supervision, from `start` to `stop`."""

    def __init__(
        self, service: Service, log_dir: Path, records: ChildRecords, report: Report
    ) -> None:
        self.service = service
        self.log_file = log_dir / f"{service.name}.log"
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Raises ServiceUnavailable once the child has ended several times in a row, at once."""
        self._records = records
        self._report = report
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._stop_signal = signal.SIGTERM
        self._log_start_bytes = 0

    @property
    def process_id(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_running(), name=self.service.name)

    async def wait_ready(self, timeout_seconds: float) -> None:
        """Return once the probe has passed; ServiceUnavailable with the end of its log if not."""
        ready = asyncio.create_task(self._ready.wait())
        either: set[asyncio.Future[Any]] = {ready, self.failed}
        await asyncio.wait(either, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            if self.failed.done():
                self.failed.result()
            raise self._unavailable(f"does not answer after {timeout_seconds:.0f} s")

    async def stop(self, grace_seconds: float) -> None:
        """End the child in order, by force after the grace period; nothing of it is left."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        if self._process is not None:
            await end(self._process, self._stop_signal, grace_seconds)
        self._records.forget(self.service.name)
        if not self.failed.cancel() and not self.failed.cancelled():
            self.failed.exception()  # nobody needs it any more

    async def _keep_running(self) -> None:
        back_off_seconds, quick_ends = FIRST_BACK_OFF_SECONDS, 0
        while True:
            started = time.monotonic()
            try:
                how = await self._run_once()
            except Exception as error:  # whatever keeps it from starting, it is tried again
                how = f"cannot be started: {error}"
            if time.monotonic() - started > STEADY_SECONDS:
                back_off_seconds, quick_ends = FIRST_BACK_OFF_SECONDS, 0
            quick_ends += 1
            if quick_ends == QUICK_ENDS_THAT_FAIL and not self.failed.done():
                self.failed.set_exception(self._unavailable(how))
            self._report(
                f"{self.service.name} {how}; starting it again in {back_off_seconds:.1f} s"
            )
            await asyncio.sleep(back_off_seconds)
            back_off_seconds = min(2 * back_off_seconds, LONGEST_BACK_OFF_SECONDS)

    async def _run_once(self) -> str:
        """Start the child and stay until it ended; says how."""
        await asyncio.to_thread(self.service.prepare)
        command = self.service.command()
        self._stop_signal = command.stop_signal
        rotate(self.log_file)
        self._log_start_bytes = self.log_file.stat().st_size if self.log_file.exists() else 0
        process = self._process = await spawn(command, self.log_file)
        self._records.remember(self.service.name, process.pid)
        exited = asyncio.create_task(process.wait())
        watch = asyncio.create_task(self._watch())
        try:
            await asyncio.wait({watch, exited}, return_when=asyncio.FIRST_COMPLETED)
            is_silent = not exited.done()
            if is_silent:
                process.kill()
            status = await exited
        finally:
            watch.cancel()
            exited.cancel()
            self._ready.clear()
        kill_group(process.pid)
        self._process = None
        self._records.forget(self.service.name)
        if is_silent:
            return f"did not answer for {SILENT_SECONDS:.0f} s"
        return f"ended with {describe_status(status)}"

    async def _watch(self) -> None:
        """Probe until the child is ready, and from then on; returns when it has gone silent."""
        while not await self._answers():  # noqa: ASYNC110 (it is another process that changes)
            await asyncio.sleep(PROBE_PAUSE_SECONDS)
        self._ready.set()
        last_answer = time.monotonic()
        while time.monotonic() - last_answer < SILENT_SECONDS:
            await asyncio.sleep(PROBE_EVERY_SECONDS)
            if await self._answers():
                last_answer = time.monotonic()

    async def _answers(self) -> bool:
        try:
            await asyncio.to_thread(self.service.probe)
        except NotReady:
            return False
        return True

    def _unavailable(self, how: str) -> ServiceUnavailable:
        tail = log_tail(self.log_file, self._log_start_bytes)
        return ServiceUnavailable(
            f"{self.service.name} {how}. Its log {self.log_file} ends:\n{tail}",
            value=self.service.name,
        )


async def end(
    process: asyncio.subprocess.Process, stop_signal: signal.Signals, grace_seconds: float
) -> None:
    """Ask a process to end, kill it when it does not, and kill what is left of its group."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(stop_signal)
        try:
            async with asyncio.timeout(grace_seconds):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    kill_group(process.pid)


def describe_status(status: int) -> str:
    """An exit status as a person reads it."""
    if status < 0:
        return f"signal {signal.Signals(-status).name}"
    return f"status {status}"


def rotate(log_file: Path) -> None:
    """Keep one older log when the current one has grown long."""
    with contextlib.suppress(FileNotFoundError):
        if log_file.stat().st_size > LONGEST_LOG_BYTES:
            os.replace(log_file, log_file.with_suffix(".log.1"))  # noqa: PTH105
