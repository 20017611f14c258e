"""Gateways as processes of their own: one listening socket, one set of numbers, a clean end."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.platform.settings import Settings
from tests.api.conftest import Tenant, running_worker
from tests.api.running import gateway_environment
from tests.api.waiting import eventually
from tests.engine.worker.echo_engine import EchoEngine

BASE = "smollm2-135m-instruct"
ENDED_WELL = 0


@contextmanager
def gateway_process(
    settings: Settings, listener: socket.socket
) -> Iterator[subprocess.Popen[bytes]]:
    fd = listener.fileno()
    process = subprocess.Popen(
        [sys.executable, "-m", "loraplex.platform.cli", "gateway", "--fd", str(fd)],
        env=gateway_environment(settings),
        pass_fds=[fd],
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(20)


@pytest.fixture
def pair(
    gateway_settings: Settings,
    registered_base: None,
    table: ModuleTable,
    tmp_path: Path,
    smollm2_dir: Path,
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Two gateways behind one address, and a worker."""
    settings = gateway_settings.model_copy(update={"data_dir": tmp_path})
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        stack.enter_context(running_worker(settings, table, EchoEngine(step_seconds=0.01)))
        pair = [stack.enter_context(gateway_process(settings, listener)) for _ in range(2)]
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        yield url, pair


def served_by(tmp_path: Path) -> set[int]:
    """The processes that have counted a request."""
    files = (tmp_path / "run" / "metrics").glob("counter_*.db")
    return {int(file.stem.split("_")[1]) for file in files}


def test_two_gateways_share_a_socket_and_their_numbers_and_one_outlives_the_other(
    pair: tuple[str, list[subprocess.Popen[bytes]]], tmp_path: Path, customer: Tenant
) -> None:
    url, processes = pair
    first, second = processes
    body = {"model": BASE, "prompt": "la", "max_tokens": 2}

    def ask() -> int:
        """On a connection of its own, which either gateway may take."""
        headers = {"Authorization": f"Bearer {customer.key}", "Connection": "close"}
        return httpx.post(
            f"{url}/v1/completions", json=body, headers=headers, verify=False, timeout=30
        ).status_code

    asked = 0

    def both_have_answered() -> bool:
        nonlocal asked
        assert ask() == 200
        asked += 1
        return served_by(tmp_path) == {first.pid, second.pid}

    eventually("both gateways to have answered", both_have_answered, seconds=60)
    numbers = httpx.get(f"{url}/metrics", verify=False).text
    assert f'loraplex_calls_total{{model_name="{BASE}",outcome="completed"}} {asked}.0' in numbers

    first.send_signal(signal.SIGTERM)
    assert first.wait(15) == ENDED_WELL
    assert ask() == 200
    second.send_signal(signal.SIGTERM)
    assert second.wait(15) == ENDED_WELL
    assert not list((tmp_path / "run" / "metrics").glob("gauge_live*"))
