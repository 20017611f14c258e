"""The distribution: what a wheel carries, and that one without it is not built."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = (
    "loraplex/platform/migrations/env.py",
    "loraplex/adapters_registry/demo_adapters/pirate/adapter_model.safetensors",
    "loraplex/api/web/index.html",
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the build reads, with a web build of one page."""
    copy = tmp_path / "checkout"
    parts = ["engine", "platform", "adapters_registry", "api", "migrations", "tests/fixtures"]
    parts += ["pyproject.toml", "hatch_build.py", "README.md", "LICENSE"]
    for part in parts:
        (copy / part).parent.mkdir(parents=True, exist_ok=True)
        (copy / part).symlink_to(ROOT / part)
    (copy / "web" / "dist").mkdir(parents=True)
    (copy / "web" / "dist" / "index.html").write_text("<!doctype html>")
    return copy


def build(checkout: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "out", "."]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=120)


def test_a_wheel_carries_migrations_web_build_and_demo_adapters(checkout: Path) -> None:
    done = build(checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (checkout / "out").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for name in NEEDED:
        assert name in names
    assert [name for name in names if name.startswith("tests/") or "__pycache__" in name] == []


@pytest.mark.parametrize("missing", ["web/dist/index.html", "migrations"])
def test_a_wheel_without_them_is_not_built(checkout: Path, missing: str) -> None:
    (checkout / missing).unlink()
    done = build(checkout)
    assert done.returncode != 0
    assert missing in done.stdout + done.stderr


@pytest.mark.parametrize("part", ["engine", "platform", "adapters_registry", "api"])
def test_the_namespace_stays_open_and_the_standard_library_visible(part: str) -> None:
    assert not (ROOT / part / "__init__.py").exists()
    assert not (ROOT / part / "loraplex" / "__init__.py").exists()
    done = subprocess.run([sys.executable, "-c", "import platform; platform.system()"], cwd=ROOT)
    assert done.returncode == 0
