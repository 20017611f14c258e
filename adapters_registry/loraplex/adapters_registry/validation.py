"""Runs the validator on two local files, and tells a bad upload from a platform in trouble."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from loraplex.adapters_registry.rejection import ReasonCode, RejectionReason
from loraplex.adapters_registry.validator import Job, Verdict
from loraplex.engine.protocol.module_table import ModuleTable

INHERITED = ("PATH", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV")


class ValidatorFailed(RuntimeError):
    """The validator ended without a verdict, through no proven fault of the upload: try again."""


@dataclass(frozen=True)
class ValidationLimits:
    """What checking one upload may take.

    CPU time is the upload's own, so using it up is its fault; waiting longer than `seconds` is
    more likely the fault of a busy machine.
    """

    seconds: int = 30
    cpu_seconds: int = 10
    memory_bytes: int = 512 * 1024 * 1024


def validate_files(
    config: Path, weights: Path, table: ModuleTable, limits: ValidationLimits
) -> Verdict:
    """The validator's verdict; a process that used up its CPU time is a verdict too.

    Blocks for at most `limits.seconds`. Raises ValidatorFailed.
    """
    job = Job(
        config_path=str(config.absolute()),
        weights_path=str(weights.absolute()),
        table=table,
        memory_bytes=limits.memory_bytes,
        cpu_seconds=limits.cpu_seconds,
    )
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "loraplex.adapters_registry.validator"],
            input=msgspec.json.encode(job),
            capture_output=True,
            env=environment(),
            timeout=limits.seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ValidatorFailed(f"no verdict within {limits.seconds} s") from None
    except OSError as error:
        raise ValidatorFailed(f"could not start: {error}") from error
    if done.returncode == -signal.SIGXCPU:
        return too_slow(limits.cpu_seconds)
    if done.returncode != 0:
        last_words = done.stderr.decode(errors="replace").strip()[-500:]
        raise ValidatorFailed(f"ended with {done.returncode}: {last_words}")
    return msgspec.json.decode(done.stdout, type=Verdict)


def environment() -> dict[str, str]:
    """No secrets, and one thread: NumPy's would count against the memory limit."""
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return kept | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def too_slow(cpu_seconds: int) -> Verdict:
    message = (
        f"Checking the upload took more than {cpu_seconds} s of computing; an adapter takes less "
        "than one. A pattern in adapter_config.json that backtracks without end does this."
    )
    return Verdict(reasons=(RejectionReason(ReasonCode.VALIDATION_LIMIT, message),))
