"""What a child process is to its supervisor: a command, a way to stop it, a probe."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from loraplex.platform.embedded import exec_guarded
from loraplex.platform.embedded.errors import ServiceUnavailable
from loraplex.platform.embedded.private_files import private_dir

PROBE_PAUSE_SECONDS = 0.05
LOG_TAIL_BYTES = 2000


class NotReady(Exception):
    """A probe found no answer, or a wrong one; its text says which."""


@dataclass(frozen=True)
class Command:
    """One program to run with exactly this environment; `stop_signal` asks it to end in order.

    `wrapper` is put before everything, for a program that must run in another user namespace.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    wrapper: tuple[str, ...] = ()
    pass_fds: tuple[int, ...] = ()


class Service(Protocol):
    """A child the supervisor can start, probe and restart."""

    @property
    def name(self) -> str: ...

    def prepare(self) -> None:
        """Make what the program needs on disk; blocks, idempotent, runs before every start."""

    def command(self) -> Command: ...

    def probe(self) -> None:
        """Return when the service does its work; raise NotReady otherwise. Blocks briefly."""


def guarded(command: Command) -> list[str]:
    """The argument list that runs a command so that it is told to stop when this process dies."""
    guard = (sys.executable, "-I", "-S", exec_guarded.__file__)
    return [
        *command.wrapper,
        *guard,
        str(os.getpid()),
        str(int(command.stop_signal)),
        *command.argv,
    ]


def base_environment() -> dict[str, str]:
    """The part of our environment that any program may have."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
    return {name: os.environ[name] for name in kept if name in os.environ}


def log_tail(log_file: Path, start_bytes: int = 0) -> str:
    """The last lines that a child wrote since `start_bytes`, for an error message."""
    try:
        with log_file.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(start_bytes, end - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace").strip()
    except FileNotFoundError:
        return ""


@contextmanager
def running(
    service: Service, log_dir: Path, *, timeout_seconds: float = 60
) -> Iterator[subprocess.Popen[bytes]]:
    """Run one service for the length of a with-block, without a supervisor.

    Raises ServiceUnavailable with the end of its log when it does not answer in time.
    """
    service.prepare()
    command = service.command()
    log_file = private_dir(log_dir) / f"{service.name}.log"
    with log_file.open("ab") as log:
        start_bytes = log.tell()
        process = subprocess.Popen(
            guarded(command),
            env=dict(command.env),
            cwd=command.cwd,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=command.pass_fds,
        )
    try:
        deadline = time.monotonic() + timeout_seconds
        while True:
            ended = process.poll()
            try:
                if ended is None:
                    service.probe()
                    break
            except NotReady:
                pass
            if ended is not None or time.monotonic() > deadline:
                what = "does not answer" if ended is None else f"ended with status {ended}"
                raise ServiceUnavailable(
                    f"{service.name} {what}; its log ends: {log_tail(log_file, start_bytes)}",
                    value=service.name,
                )
            time.sleep(PROBE_PAUSE_SECONDS)
        yield process
    finally:
        stop(process, command.stop_signal)


def stop(
    process: subprocess.Popen[bytes], stop_signal: signal.Signals, timeout_seconds: float = 10
) -> None:
    """End a process in order, or by force once the time is up, with all of its group."""
    if process.poll() is None:
        process.send_signal(stop_signal)
        try:
            process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    kill_group(process.pid)


def kill_group(group_id: int) -> None:
    """Kill whatever is left of a child's process group once the child itself is gone."""
    try:
        os.killpg(group_id, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
