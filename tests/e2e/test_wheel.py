"""A wheel installed in an empty environment serves as well as the checkout does."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, start_platform

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def environment_with(wheel: Path, folder: Path) -> Path:
    """A new environment that sees this one's libraries, but of Loraplex only the wheel.

    Its own site-packages come first; ours are one more path, whose `.pth` files (the editable
    install among them) Python does not read there.
    """
    venv.create(folder, with_pip=False)
    site = next((folder / "lib").glob("python*")) / "site-packages"
    ours = next(Path(sys.prefix, "lib").glob("python*")) / "site-packages"
    (site / "libraries.pth").write_text(f"{ours}\n")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel],
        check=True,
    )
    return folder / "bin" / "python"


def test_the_wheel_serves(tmp_path: Path, smollm2_dir: Path) -> None:
    if not (ROOT / "web" / "dist" / "index.html").exists():
        pytest.fail("web/dist is missing: run `make web` first")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT],
        check=True,
        capture_output=True,
    )
    python = environment_with(next(tmp_path.glob("*.whl")), tmp_path / "venv")
    where = subprocess.run(
        [python, "-c", "import loraplex.api as a; print(a.__path__[0])"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert str(tmp_path) in where
    installed = start_platform(
        tmp_path / "data",
        model_dir=smollm2_dir,
        command=(str(python), "-m", "loraplex.platform.cli"),
        cwd=tmp_path,
    )
    try:
        with installed.client(installed.key("acme")) as client:
            answer = client.post(
                "/v1/completions", json={"model": "pirate", "prompt": "Hello", "max_tokens": 4}
            )
            assert answer.status_code == 200, answer.text
            page = client.get("/")
            assert page.status_code == 200
            assert "<div id=" in page.text
    finally:
        installed.stop()
