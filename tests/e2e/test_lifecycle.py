"""Starting, stopping and starting again."""

import json
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.e2e.conftest import ROOT, Platform, start_platform, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def descendants(platform: Platform) -> list[psutil.Process]:
    found: list[psutil.Process] = psutil.Process(platform.process.pid).children(recursive=True)
    return found


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that still run; one that has ended and waits to be reaped by init does not."""
    return [
        process
        for process in processes
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    ]


def test_a_stopped_platform_leaves_nothing_and_starts_again_with_its_data(
    tmp_path: Path, smollm2_dir: Path, record_property: Callable[[str, object], None]
) -> None:
    first = start_platform(tmp_path, model_dir=smollm2_dir)
    credentials = tmp_path / "credentials.json"
    assert stat.S_IMODE(credentials.stat().st_mode) == 0o600
    before = json.loads(credentials.read_text())
    children = descendants(first)
    first.stop()
    assert first.process.returncode == 0
    assert alive(children) == []

    started = time.monotonic()
    second = start_platform(tmp_path)
    record_property("second_start_seconds", round(time.monotonic() - started, 1))
    try:
        assert json.loads(credentials.read_text())["tenants"] == before["tenants"]
        with second.client(before["tenants"]["acme"]["api_key"]) as client:
            answer = client.post(
                "/v1/completions", json={"model": "pirate", "prompt": "Ho", "max_tokens": 2}
            )
            assert answer.status_code == 200, answer.text
    finally:
        second.stop()


def test_a_killed_supervisor_takes_its_children_with_it(tmp_path: Path, smollm2_dir: Path) -> None:
    first = start_platform(tmp_path, model_dir=smollm2_dir)
    children = descendants(first)
    first.process.kill()
    first.process.wait()
    second = start_platform(tmp_path)
    try:
        wait_for(
            "the first start's children to be gone",
            lambda: not alive(children),
            seconds=10,
        )
    finally:
        second.stop()


def test_a_second_start_on_one_data_directory_is_refused(platform: Platform) -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "loraplex.platform.cli", "serve", "--port", "1"],
        cwd=ROOT,
        env={"LORAPLEX_DATA_DIR": str(platform.data_dir), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert refused.returncode != 0
    assert str(platform.data_dir) in refused.stdout + refused.stderr
    assert platform.is_ready()
