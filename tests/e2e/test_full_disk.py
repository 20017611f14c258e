"""A worker whose disk takes no more: who needs the disk is told so, and nobody else notices."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from tests.e2e.conftest import Platform
from tests.e2e.pipeline import Files
from tests.e2e.test_child_death import Stream

pytestmark = pytest.mark.e2e

FILE_BYTES = 4096


@contextmanager
def full_disk(process: psutil.Process) -> Iterator[None]:
    """No file of this process grows beyond a few bytes meanwhile."""
    soft, hard = process.rlimit(resource.RLIMIT_FSIZE)
    process.rlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, hard))
    try:
        yield
    finally:
        process.rlimit(resource.RLIMIT_FSIZE, (soft, hard))


def called(platform: Platform, model: str) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
    with platform.client(platform.key("acme")) as client:
        return client.post("/v1/chat/completions", json=body)


def test_a_full_disk_fails_what_needs_it_with_its_reason_and_nothing_else(
    platform: Platform, tmp_path: Path
) -> None:
    (worker,) = platform.children("loraplex.engine.worker")
    near = platform.credentials["tenants"]["acme"]["adapters"][0]
    assert called(platform, near).status_code == 200
    files = Files("full-disk")
    (tmp_path / "adapter_config.json").write_bytes(files.config)
    (tmp_path / "adapter_model.safetensors").write_bytes(files.weights)
    with full_disk(worker):
        assert platform.upload(platform.key("acme"), "full-disk", tmp_path)["status"] == "ready"
        stream = Stream(platform, near)
        for _ in range(2):  # a failure is no verdict: it is tried each time
            refused = called(platform, "full-disk")
            assert refused.status_code == 503, refused.text
            error = refused.json()["error"]
            assert error["code"] == "adapter_unavailable"
            assert "cannot be kept on this machine: File too large" in error["message"]
            assert called(platform, near).status_code == 200
        stream.join()
        assert stream.outcome == "completed"
    assert called(platform, "full-disk").status_code == 200
    folder = Path(platform.data_dir)
    assert not list(folder.rglob("*.partial")), "what could not be written is not left behind"
