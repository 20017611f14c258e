"""Has two local files checked by a validator, and tells a bad upload from a platform in trouble."""

import signal
from dataclasses import dataclass
from pathlib import Path

import msgspec

from loraplex.adapters_registry.rejection import ReasonCode, RejectionReason
from loraplex.adapters_registry.validator import Job, Verdict
from loraplex.adapters_registry.validator_pool import (
    POOL,
    ValidatorEnded,
    ValidatorProcess,
    ValidatorSilent,
)
from loraplex.engine.protocol.module_table import ModuleTable

CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGABRT, signal.SIGFPE)
"""Signals that come from what a process does; SIGKILL comes from a machine short of memory."""


class ValidatorFailed(RuntimeError):
    """The validator ended without a verdict, through no proven fault of the upload: try again."""


class ValidatorCrashed(ValidatorFailed):
    """A process that had checked nothing else was ended by a signal: the upload may be why."""


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

    Blocks for at most twice `limits.seconds`. A process that has checked other uploads may have
    been spoiled by one of them: what goes wrong in it is tried again in a new one, and only that
    counts. Raises ValidatorFailed.
    """
    job = Job(
        config_path=str(config.absolute()),
        weights_path=str(weights.absolute()),
        table=table,
        memory_bytes=limits.memory_bytes,
        cpu_seconds=limits.cpu_seconds,
    )
    process = take(limits, is_fresh=False)
    if not process.is_fresh:
        try:
            verdict = ask(process, job, limits)
            if not verdict.ran_out_of_memory:
                return verdict
        except ValidatorFailed:
            pass
        process = take(limits, is_fresh=True)
    return ask(process, job, limits)


def take(limits: ValidationLimits, *, is_fresh: bool) -> ValidatorProcess:
    try:
        return POOL.take(limits.memory_bytes, is_fresh=is_fresh)
    except OSError as error:
        raise ValidatorFailed(f"could not start: {error}") from error


def ask(process: ValidatorProcess, job: Job, limits: ValidationLimits) -> Verdict:
    try:
        answer = process.ask(msgspec.json.encode(job), limits.seconds)
    except ValidatorSilent:
        raise ValidatorFailed(f"no verdict within {limits.seconds} s") from None
    except ValidatorEnded as ended:
        if ended.status == -signal.SIGXCPU:
            return too_slow(limits.cpu_seconds)
        if -ended.status in CRASHES:
            raise ValidatorCrashed(f"{ended}") from ended
        raise ValidatorFailed(f"{ended}") from ended
    verdict = msgspec.json.decode(answer, type=Verdict)
    if verdict.ran_out_of_memory:
        process.close()
    else:
        POOL.give_back(process, limits.memory_bytes)
    return verdict


def too_slow(cpu_seconds: int) -> Verdict:
    message = (
        f"Checking the upload took more than {cpu_seconds} s of computing; an adapter takes less "
        "than one. A pattern in adapter_config.json that backtracks without end does this."
    )
    return Verdict(reasons=(RejectionReason(ReasonCode.VALIDATION_LIMIT, message),))
