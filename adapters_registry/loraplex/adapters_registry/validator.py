"""Checks uploads in a process of its own, which may not do anything else.

`python -m loraplex.adapters_registry.validator` reads Jobs from its input, one after another, and
answers each with a Verdict. Whatever a file does to it, the caller lives: see `validation.py`.
"""

import gc
import resource
import sys
from pathlib import Path
from typing import BinaryIO

import msgspec

from loraplex.adapters_registry.rejection import (
    AdapterRejected,
    ReasonCode,
    RejectionReason,
)
from loraplex.engine.protocol.adapter import AdapterSpec
from loraplex.engine.protocol.module_table import ModuleTable

MAX_UPLOADS = 100
"""What one process checks before another takes its place, so that nothing gathers in it."""
MAX_OPEN_FILES = 64
MAX_OUTPUT_BYTES = 64 * 1024 * 1024
LENGTH_BYTES = 8


class Job(msgspec.Struct, frozen=True):
    """Where the two files lie, the base they are for, and what checking them may take.

    Memory is the process's, so all its jobs give the same.
    """

    config_path: str
    weights_path: str
    table: ModuleTable
    memory_bytes: int
    cpu_seconds: int


class Verdict(msgspec.Struct, frozen=True):
    """A spec, or the reasons why there is none."""

    spec: AdapterSpec | None = None
    reasons: tuple[RejectionReason, ...] = ()
    ran_out_of_memory: bool = False


def main() -> int:
    is_limited = False
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        job = msgspec.json.decode(frame, type=Job)
        if not is_limited:
            limit(job)
            is_limited = True
        allow_computing(job.cpu_seconds)
        sys.stdout.buffer.write(framed(msgspec.json.encode(judge(job))))
        sys.stdout.buffer.flush()
        gc.collect()
    return 0


def read_frame(stream: BinaryIO) -> bytes | None:
    """The next message; None where there are no more."""
    length = stream.read(LENGTH_BYTES)
    return stream.read(int.from_bytes(length, "little")) if length else None


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(LENGTH_BYTES, "little") + message


def limit(job: Job) -> None:
    """Bound this process for good: memory, CPU time, files, and no children or core dumps."""
    for kind, bound in (
        (resource.RLIMIT_AS, job.memory_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, MAX_OUTPUT_BYTES),
        (resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(kind, (bound, bound))
    most_seconds = 1 + (MAX_UPLOADS + 1) * (job.cpu_seconds + 1)
    resource.setrlimit(resource.RLIMIT_CPU, (most_seconds, most_seconds))


def allow_computing(seconds: int) -> None:
    """Let this process compute for so long from now on; past it, SIGXCPU tells the caller why."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    until = int(used.ru_utime + used.ru_stime) + 1 + seconds
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (until, hard))


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
        reason = RejectionReason(ReasonCode.VALIDATION_LIMIT, message)
        return Verdict(reasons=(reason,), ran_out_of_memory=True)


if __name__ == "__main__":
    sys.exit(main())
