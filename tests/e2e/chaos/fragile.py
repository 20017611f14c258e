"""A platform of processes that a test may kill and start again: gateways, workers, Postgres."""

import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx
from pydantic import SecretStr

from loraplex.engine.protocol.config import EngineConfig
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.embedded.postgres import Postgres
from loraplex.platform.embedded.processes import kill_group, running
from loraplex.platform.pools.launcher import worker_command
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from tests.api.running import gateway_environment
from tests.conftest import role_urls

ROOT = Path(__file__).parents[3]
STEP_SECONDS = 0.004
LEASE_SECONDS = 3.0
LOST_SECONDS = 4.0
GRACE_SECONDS = 15.0
"""What a supervisor waits for a gateway that was told to end."""


@dataclass
class Process:
    """One program, which is started again after each end; `ends` tells when each life ended."""

    command: list[str]
    environment: dict[str, str]
    log: Path
    pass_fds: tuple[int, ...] = ()
    ends: dict[int, datetime] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                env=self.environment,
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=self.pass_fds,
            )

    def kill(self) -> None:
        """kill -9, and wait for it to be gone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.ends[self.pid] = datetime.now(UTC)

    def tell_to_end(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float) -> int:
        assert self.process is not None
        status = self.process.wait(seconds)
        self.ends[self.pid] = datetime.now(UTC)
        return status


class Gateway(Process):
    """A gateway with an address of its own, which outlives it: who connects meanwhile waits."""

    def __init__(self, number: int, settings: Settings, folder: Path) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        fd = self.listener.fileno()
        super().__init__(
            [sys.executable, "-m", "loraplex.platform.cli", "gateway", "--fd", str(fd)],
            gateway_environment(settings),
            folder / f"gateway-{number}.log",
            (fd,),
        )

    def is_ready(self) -> bool:
        """Whether it answers so at once; a listener without a process behind it does not answer."""
        try:
            return httpx.get(f"{self.url}/readyz", timeout=1.0, verify=False).status_code == 200
        except httpx.HTTPError:
            return False


class FragilePostgres:
    """A durable server: what it has said is written stays written."""

    def __init__(self, folder: Path) -> None:
        self.service = Postgres(folder / "postgres", free_port())
        self._logs = folder / "logs"
        self._stack = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = self._stack.enter_context(running(self.service, self._logs))

    def stop(self) -> None:
        """Sessions end at once; nothing that was committed is lost."""
        self._stack.close()

    def crash(self) -> None:
        """kill -9 of all of it: commits that nobody waited for are lost."""
        assert self._process is not None
        kill_group(self._process.pid)
        self._process.wait()
        self._stack.close()


class FragilePlatform:
    """All processes, and the settings that they share."""

    def __init__(self, services: Settings, model_dir: Path, folder: Path, gateways: int) -> None:
        self.folder = folder
        self.journals = folder / "journals"
        self.journals.mkdir()
        self.postgres = FragilePostgres(folder)
        self.postgres.start()
        port = free_port()
        self.settings = services.model_copy(
            update={
                "data_dir": folder,
                "model": str(model_dir),
                "internal_port": port,
                "internal_url": f"http://127.0.0.1:{port}",
                "reservation_lease_seconds": LEASE_SECONDS,
                "recovery_lost_seconds": LOST_SECONDS,
                **{name: SecretStr(url) for name, url in role_urls(self.postgres.service).items()},
            }
        )
        self.base_name = model_dir.name
        self.controller = Process(
            [sys.executable, "-m", "loraplex.platform.cli", "controller"],
            gateway_environment(self.settings),
            folder / "controller.log",
        )
        self.gateways = [Gateway(number, self.settings, folder) for number in range(gateways)]
        self.workers = [self._worker(number) for number in range(2)]

    def _worker(self, number: int) -> Process:
        config = EngineConfig(model_dir="-", base_name=self.base_name, adapter_cache_dir="-")
        secrets = SecretKeys.from_settings(self.settings)
        _, environment = worker_command(self.settings, number, config, secrets)
        module = ["-m", "tests.e2e.chaos.journal_worker"]
        command = [sys.executable, *module, str(STEP_SECONDS), str(self.journals)]
        return Process(command, environment, self.folder / f"worker-{number}.log")

    @property
    def processes(self) -> list[Process]:
        return [self.controller, *self.workers, *self.gateways]

    def start(self, seconds: float = 600) -> None:
        for process in self.processes:
            process.start()
        deadline = time.monotonic() + seconds
        while not all(gateway.is_ready() for gateway in self.gateways):
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.05)

    def stop(self) -> None:
        for process in self.processes:
            if process.process is not None and process.process.poll() is None:
                process.kill()
        for gateway in self.gateways:
            gateway.listener.close()
        self.postgres.stop()

    def logs(self) -> str:
        """The end of what each process wrote."""
        tails = []
        for process in self.processes:
            text = process.log.read_text(errors="replace") if process.log.exists() else ""
            tails.append(f"--- {process.log.name}\n{text[-1500:]}")
        return "\n".join(tails)

    def worker_ends(self) -> dict[int, datetime]:
        """When each worker process that is no more ended."""
        return {pid: at for worker in self.workers for pid, at in worker.ends.items()}
