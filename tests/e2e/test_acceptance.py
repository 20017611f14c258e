"""The black-box checks that outsiders hold us to, where they are at hand."""

import subprocess
import sys

import pytest

from tests.e2e.conftest import ROOT, Platform

MAIN_JOB = ROOT.parent / "shared" / "acceptance" / "main_job.py"


@pytest.mark.e2e
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    not MAIN_JOB.exists(), reason="the acceptance checks are not beside the checkout"
)
def test_the_main_job_passes(platform: Platform) -> None:
    done = subprocess.run(
        [sys.executable, str(MAIN_JOB), "--data-dir", str(platform.data_dir)],
        capture_output=True,
        text=True,
        timeout=800,
    )
    failed = [line for line in done.stdout.splitlines() if not line.startswith("ok ")]
    assert done.returncode == 0, "\n".join(failed) + done.stderr[-2000:]
