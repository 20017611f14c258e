"""A backup that is taken while the platform serves, and the platform that comes of it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import ADAPTERS, Platform, start_platform

pytestmark = pytest.mark.e2e

QUESTION = {
    "messages": [{"role": "user", "content": "Why is the sky blue?"}],
    "max_tokens": 24,
    "temperature": 0,
}


def loraplex(data_dir: Path, *arguments: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LORAPLEX_")}
    done = subprocess.run(
        [sys.executable, "-m", "loraplex.platform.cli", *arguments],
        env=kept | {"LORAPLEX_DATA_DIR": str(data_dir)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def ask(platform: Platform, key: str, model: str) -> dict[str, Any]:
    with platform.client(key) as client:
        answer = client.post("/v1/chat/completions", json=QUESTION | {"model": model})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    usage = body["usage"]
    return {"choices": body["choices"], "tokens": (usage["prompt_tokens"], usage["total_tokens"])}


@pytest.mark.timeout(900)
def test_a_restored_platform_gives_the_same_tokens_for_the_same_keys(
    platform: Platform, smollm2_dir: Path, tmp_path: Path
) -> None:
    key = platform.key("acme")
    assert platform.upload(key, "kept", ADAPTERS / "shout")["status"] == "ready"
    before = {model: ask(platform, key, model) for model in ("pirate", "kept")}
    made = loraplex(platform.data_dir, "backup", str(tmp_path / "backup.tar"), "--include-secrets")
    assert "with secrets" in made
    with platform.client(key) as client:
        client.delete("/api/v1/adapters/kept").raise_for_status()

    fresh = tmp_path / "fresh"
    loraplex(fresh, "restore", str(tmp_path / "backup.tar"))
    restored = start_platform(fresh, model_dir=smollm2_dir)
    try:
        assert restored.key("acme") == key
        assert {model: ask(restored, key, model) for model in before} == before
        with restored.client(restored.admin_key) as operator:
            names = [one["name"] for one in operator.get("/api/v1/admin/tenants").json()["data"]]
        assert {"acme", "globex"} <= set(names)
    finally:
        restored.stop()
