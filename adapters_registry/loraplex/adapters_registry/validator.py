"""Checks one upload in a process of its own, which may not do anything else.

`python -m loraplex.adapters_registry.validator` reads a Job from its input and writes a Verdict.
Whatever a file does to it, the caller lives: see `validation.py`.
"""

import resource
import sys
from pathlib import Path

import msgspec

from loraplex.adapters_registry.rejection import (
    AdapterRejected,
    ReasonCode,
    RejectionReason,
)
from loraplex.engine.protocol.adapter import AdapterSpec
from loraplex.engine.protocol.module_table import ModuleTable

MAX_OPEN_FILES = 64
MAX_OUTPUT_BYTES = 64 * 1024 * 1024


class Job(msgspec.Struct, frozen=True):
    """Where the two files lie, the base they are for, and what checking them may take."""

    config_path: str
    weights_path: str
    table: ModuleTable
    memory_bytes: int
    cpu_seconds: int


class Verdict(msgspec.Struct, frozen=True):
    """A spec, or the reasons why there is none."""

    spec: AdapterSpec | None = None
    reasons: tuple[RejectionReason, ...] = ()


def main() -> int:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    limit(job)
    verdict = judge(job)
    sys.stdout.buffer.write(msgspec.json.encode(verdict))
    return 0


def limit(job: Job) -> None:
    """Bound this process for good: memory, CPU time, files, and no children or core dumps."""
    for kind, bound in (
        (resource.RLIMIT_AS, job.memory_bytes),
        (resource.RLIMIT_CPU, job.cpu_seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, MAX_OUTPUT_BYTES),
        (resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
        (resource.RLIMIT_NPROC, 0),
    ):
        # A hard CPU limit kills with SIGKILL; only the soft one's SIGXCPU tells the caller why.
        hard = bound + 1 if kind == resource.RLIMIT_CPU else bound
        resource.setrlimit(kind, (bound, hard))


def judge(job: Job) -> Verdict:
    try:
        # NumPy comes in only now, so that the limits hold for it too.
        from loraplex.adapters_registry.peft import spec_from_files

        config = Path(job.config_path).read_bytes()
        return Verdict(spec=spec_from_files(config, Path(job.weights_path), job.table))
    except AdapterRejected as rejected:
        return Verdict(reasons=rejected.reasons)
    except MemoryError:
        message = f"Checking the upload took more than {job.memory_bytes} bytes of memory."
        return Verdict(reasons=(RejectionReason(ReasonCode.VALIDATION_LIMIT, message),))


if __name__ == "__main__":
    sys.exit(main())
