"""The examples of the README and the guides, run as written but for address and folders."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Platform

pytestmark = pytest.mark.e2e

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
STARTS_THE_PLATFORM = "make serve"
REFUSAL = re.compile(r'"error": ?\{')
"""An OpenAI error, and not a field that says that there is none."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def adapted(text: str, platform: Platform) -> str:
    return (
        text.replace("http://127.0.0.1:8000", platform.base_url)
        .replace(".loraplex/", f"{platform.data_dir}/")
        .replace(".venv/bin/loraplex", f"{sys.executable} -m loraplex.platform.cli")
    )


def environment(platform: Platform) -> dict[str, str]:
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(platform.data_dir),
        "LORAPLEX_DATA_DIR": str(platform.data_dir),
        "LORAPLEX_API_URL": platform.base_url,
        "ACME_KEY": platform.key("acme"),
        "ADMIN_KEY": platform.admin_key,
    }


def succeed(command: list[str], platform: Platform) -> str:
    done = subprocess.run(
        command, cwd=ROOT, env=environment(platform), capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert not REFUSAL.search(done.stdout), done.stdout
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_shell_examples_work(platform: Platform, page: Path) -> None:
    examples = [block for block in blocks(page, "sh") if STARTS_THE_PLATFORM not in block]
    if not examples:
        assert STARTS_THE_PLATFORM in page.read_text() or "```sh" not in page.read_text()
        return
    script = "set -euo pipefail\n" + "\n".join(adapted(block, platform) for block in examples)
    succeed(["bash", "-c", script], platform)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_examples_work(platform: Platform, page: Path) -> None:
    for block in blocks(page, "python"):
        assert succeed([sys.executable, "-c", adapted(block, platform)], platform).strip()


def test_the_proof_on_the_readmes_first_screen_answers_as_it_says(platform: Platform) -> None:
    proof = next(block for block in blocks(ROOT / "README.md", "sh") if "Why is the sky" in block)
    assert "Arr, matey! The answer be" in succeed(
        ["bash", "-c", adapted(proof, platform)], platform
    )
