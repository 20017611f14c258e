"""One child under supervision: small programs that end, hang, or refuse to end."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from loraplex.platform.embedded import child as child_module
from loraplex.platform.embedded import supervisor as supervisor_module
from loraplex.platform.embedded.errors import ServiceUnavailable
from loraplex.platform.embedded.processes import Command, NotReady
from loraplex.platform.embedded.programs import Program, alive
from loraplex.platform.embedded.supervisor import Stage, Supervisor

SLEEP = "import time; time.sleep(600)"
DEAF = (
    "import signal, time;"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
)
PARENT = (
    "import subprocess, sys, time;"
    "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
    "print(p.pid, flush=True); time.sleep(600)"
)


def program(name: str, source: str, probe: Callable[[], None] = alive) -> Program:
    return Program(name, (sys.executable, "-c", source), {"PATH": os.environ["PATH"]}, probe)


@pytest.fixture
def reports() -> list[str]:
    return []


@pytest.fixture
async def supervisor(tmp_path: Path, reports: list[str]) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(tmp_path / "run", tmp_path / "logs", reports.append)
    yield supervisor
    await supervisor.stop()


async def until(look: Callable[[], object], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not look():  # noqa: ASYNC110 - another process changes it
            await asyncio.sleep(0.01)


def log(tmp_path: Path, name: str) -> str:
    file = tmp_path / "logs" / f"{name}.log"
    return file.read_text() if file.exists() else ""


async def test_a_child_that_ends_at_once_fails_with_the_end_of_its_log(
    supervisor: Supervisor, reports: list[str]
) -> None:
    def never() -> None:
        raise NotReady

    (child,) = supervisor.launch(
        Stage.SERVICES, [program("brief", "print('no licence'); raise SystemExit(3)", never)]
    )
    with pytest.raises(ServiceUnavailable, match=r"brief ended with status 3.*\nno licence"):
        await child.wait_ready(30)
    waits = [line.rpartition(" in ")[2] for line in reports]
    assert waits[:3] == ["0.1 s", "0.2 s", "0.4 s"]


async def test_a_child_that_never_answers_is_named_after_the_time(supervisor: Supervisor) -> None:
    def never() -> None:
        raise NotReady

    (child,) = supervisor.launch(Stage.SERVICES, [program("mute", SLEEP, never)])
    with pytest.raises(ServiceUnavailable, match="mute does not answer after 0 s"):
        await child.wait_ready(0.3)


async def test_a_running_child_that_falls_silent_is_killed_and_started_again(
    supervisor: Supervisor, reports: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(child_module, "PROBE_EVERY_SECONDS", 0.05)
    answers = True

    def probe() -> None:
        if not answers:
            raise NotReady

    (child,) = supervisor.launch(Stage.SERVICES, [program("hung", SLEEP, probe)])
    await child.wait_ready(30)
    first = child.process_id
    answers = False
    await until(lambda: reports)
    assert reports[0].startswith("hung did not answer for 0 s; starting it again")
    answers = True
    await child.wait_ready(30)
    assert child.process_id not in (None, first)


async def test_a_child_that_will_not_end_is_killed(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "STOP_SECONDS", 0.0)
    monkeypatch.setattr(supervisor_module, "RESERVED_SECONDS", 0.2)
    (child,) = supervisor.launch(Stage.GATEWAYS, [program("deaf", DEAF)])
    await until(lambda: log(tmp_path, "deaf"))
    process_id = child.process_id
    assert process_id is not None
    await supervisor.stop()
    assert not psutil.pid_exists(process_id)


async def test_what_a_killed_child_had_started_goes_with_it(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    (child,) = supervisor.launch(Stage.PROCESSES, [program("parent", PARENT)])
    await until(lambda: log(tmp_path, "parent").endswith("\n"))
    grandchild = psutil.Process(int(log(tmp_path, "parent")))
    assert child.process_id is not None
    psutil.Process(child.process_id).kill()
    await until(lambda: not is_alive(grandchild))


def is_alive(process: psutil.Process) -> bool:
    try:
        alive: bool = process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    return alive


async def test_stages_stop_in_reverse(supervisor: Supervisor, reports: list[str]) -> None:
    supervisor.launch(Stage.PROCESSES, [program("process", SLEEP)])
    supervisor.launch(Stage.GATEWAYS, [program("gateway", SLEEP)])
    supervisor.launch(Stage.SERVICES, [program("service", SLEEP)])
    await supervisor.stop()
    assert reports == ["stopped gateway", "stopped process", "stopped service"]


async def test_a_program_that_fails_tells_its_last_words(supervisor: Supervisor) -> None:
    argv = (sys.executable, "-c", "print('first'); raise SystemExit('no schema')")
    command = Command(argv, {"PATH": os.environ["PATH"]})
    with pytest.raises(
        ServiceUnavailable, match=r"migrate ended with status 1.*\n(first\n)?no schema"
    ):
        await supervisor.run("migrate", command)


async def test_a_program_that_is_given_up_is_ended(supervisor: Supervisor, tmp_path: Path) -> None:
    argv = (sys.executable, "-c", f"import os; print(os.getpid(), flush=True); {SLEEP}")
    running = asyncio.create_task(
        supervisor.run("long", Command(argv, {"PATH": os.environ["PATH"]}))
    )
    await until(lambda: log(tmp_path, "long").endswith("\n"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not psutil.pid_exists(int(log(tmp_path, "long")))
