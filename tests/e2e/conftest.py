"""A whole platform, started as a person starts it, for tests that speak HTTP to it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
ADAPTERS = ROOT / "tests" / "fixtures" / "adapters"
EXPECTED = json.loads((ROOT / "tests" / "fixtures" / "expected.json").read_text())
BASE = EXPECTED["base_model"]
START_SECONDS = 240
PUBLIC_PROMPT = (
    "You are the parcel desk of a large shop. You tell people where their parcels are, in one "
    "short sentence, kindly and without any promise. You never ask for a password, a card's "
    "number or a birthday, and you send whoever is angry to a colleague."
)
"""The system prompt that the shared platform's operator has declared public."""
Found = TypeVar("Found")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Platform:
    """A running `loraplex serve`, its address and its credentials."""

    data_dir: Path
    port: int
    process: subprocess.Popen[bytes]
    credentials: dict[str, Any] = field(default_factory=dict)
    jobs_metrics_port: int = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.data_dir / "serve.log").read_text(errors="replace")

    def key(self, tenant: str) -> str:
        key: str = self.credentials["tenants"][tenant]["api_key"]
        return key

    @property
    def admin_key(self) -> str:
        key: str = self.credentials["admin"]["api_key"]
        return key

    def client(self, key: str | None = None, timeout: float = 120) -> httpx.Client:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=self.base_url, headers=headers, timeout=timeout)

    def children(self, kind: str) -> list[psutil.Process]:
        """The supervisor's live descendants whose command line speaks of `kind`."""
        found = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                alive = child.status() != psutil.STATUS_ZOMBIE
                if alive and kind in " ".join(child.cmdline()):
                    found.append(child)
            except psutil.NoSuchProcess:
                continue
        return found

    def workers(self) -> list[dict[str, Any]]:
        with self.client(self.admin_key) as client:
            answer = client.get("/api/v1/admin/workers")
            answer.raise_for_status()
            data: list[dict[str, Any]] = answer.json()["data"]
            return data

    def upload(self, key: str, name: str, folder: Path) -> dict[str, Any]:
        """Upload an adapter folder and wait until it is ready or rejected."""
        with self.client(key) as client:
            answer = client.post(
                f"/api/v1/adapters/{name}/versions",
                files={
                    part: (file, (folder / file).read_bytes())
                    for part, file in [
                        ("adapter_config", "adapter_config.json"),
                        ("adapter_model", "adapter_model.safetensors"),
                    ]
                },
            )
            assert answer.status_code in (200, 202), answer.text
            version = answer.json()["version"]
            path = f"/api/v1/adapters/{name}/versions/{version}"
            what = f"version {version} of {name} to be ready or rejected"
            return wait_for(what, lambda: settled(client.get(path).json()))

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.base_url}/readyz", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def wait_until_ready(self, seconds: float = START_SECONDS) -> None:
        def ready() -> bool:
            code = self.process.poll()
            assert code is None, f"`loraplex serve` ended with {code}:\n{self.log[-4000:]}"
            return self.is_ready()

        wait_for("the platform to be ready", ready, seconds, lambda: self.log[-4000:])

    def stop(self, seconds: float = 25) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(seconds)


def settled(version: dict[str, Any]) -> dict[str, Any] | None:
    return version if version["status"] in ("ready", "rejected") else None


def wait_for(
    what: str,
    probe: Callable[[], Found | None],
    seconds: float = 60,
    explain: Callable[[], str] = lambda: "",
) -> Found:
    """The first truthy answer of `probe`; fails naming `what` when there is none in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answer := probe():
            return answer
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds} s in vain for {what}\n{explain()}")


def start_platform(
    data_dir: Path,
    *options: str,
    model_dir: Path | None = None,
    command: tuple[str, ...] = (sys.executable, "-m", "loraplex.platform.cli"),
    cwd: Path = ROOT,
    **environment: str,
) -> Platform:
    """Start `loraplex serve` on a free port; with `model_dir` it need not import the model."""
    (data_dir / "models").mkdir(parents=True, exist_ok=True)
    if model_dir is not None and not (data_dir / "models" / model_dir.name).exists():
        (data_dir / "models" / model_dir.name).symlink_to(model_dir)
    port = free_port()
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("LORAPLEX_")}
    log = (data_dir / "serve.log").open("ab")
    process = subprocess.Popen(
        [*command, "serve", "--port", str(port), *options],
        cwd=cwd,
        env=inherited | {"LORAPLEX_DATA_DIR": str(data_dir)} | environment,
        stdout=log,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
    )
    log.close()
    started = Platform(data_dir, port, process)
    try:
        started.wait_until_ready()
        credentials = data_dir / "credentials.json"
        if credentials.exists():
            started.credentials = json.loads(credentials.read_text())
    except BaseException:
        started.stop()
        raise
    return started


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory, smollm2_dir: Path) -> Iterator[Platform]:
    """The platform that most end-to-end tests share: one worker, one gateway, the demo."""
    data_dir = tmp_path_factory.mktemp("platform")
    jobs_metrics_port = free_port()
    started = start_platform(
        data_dir,
        model_dir=smollm2_dir,
        LORAPLEX_JOBS_METRICS_PORT=str(jobs_metrics_port),
    )
    started.jobs_metrics_port = jobs_metrics_port
    with started.client(started.admin_key) as operator:
        path = "/api/v1/admin/public-prefixes/parcels"
        operator.put(path, json={"text": PUBLIC_PROMPT}).raise_for_status()
    yield started
    started.stop()
    shutil.rmtree(data_dir, ignore_errors=True)
