import json
import os
import resource
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from loraplex.adapters_registry import validation, validator, validator_pool
from loraplex.adapters_registry.peft import spec_from_files
from loraplex.adapters_registry.rejection import ReasonCode
from loraplex.adapters_registry.validation import (
    ValidationLimits,
    ValidatorCrashed,
    ValidatorFailed,
    validate_files,
)
from loraplex.adapters_registry.validator import LENGTH_BYTES, Job, Verdict, framed
from loraplex.adapters_registry.validator_pool import ValidatorPool, ValidatorProcess
from tests.adapters_registry.samples import FIXTURES, SMOLLM2, TINY, sample

LIMITS = ValidationLimits()
CONFIG = FIXTURES / "shout" / "adapter_config.json"
WEIGHTS = FIXTURES / "shout" / "adapter_model.safetensors"


def test_a_good_upload_comes_back_as_the_spec_it_has_in_process() -> None:
    verdict = validate_files(CONFIG, WEIGHTS, SMOLLM2, LIMITS)
    assert verdict.reasons == ()
    assert verdict.spec == spec_from_files(CONFIG.read_bytes(), WEIGHTS, SMOLLM2)


def test_a_bad_upload_comes_back_with_its_reasons(tmp_path: Path) -> None:
    adapter = sample()
    adapter.config["r"] = 0
    adapter.write(tmp_path)
    verdict = validate_files(
        tmp_path / "adapter_config.json", tmp_path / "adapter_model.safetensors", TINY, LIMITS
    )
    assert verdict.spec is None
    assert [reason.field for reason in verdict.reasons] == ["r"]


def test_a_pattern_that_backtracks_without_end_is_a_verdict(tmp_path: Path) -> None:
    adapter = sample()
    adapter.config["rank_pattern"] = {"(([a-z_.0-9]+)+)+#": 4}
    adapter.write(tmp_path)
    verdict = validate_files(
        tmp_path / "adapter_config.json",
        tmp_path / "adapter_model.safetensors",
        TINY,
        ValidationLimits(seconds=60, cpu_seconds=1),
    )
    (reason,) = verdict.reasons
    assert reason.code == ReasonCode.VALIDATION_LIMIT
    assert "pattern" in reason.message


def test_an_upload_that_takes_too_much_memory_is_a_verdict() -> None:
    job = Job(str(CONFIG), str(WEIGHTS), SMOLLM2, 512 * 1024 * 1024, 20)
    script = (
        "from loraplex.adapters_registry import peft, validator\n"
        "peft.spec_from_files = lambda *_: bytearray(2**29)\n"
        "validator.main()\n"
    )
    done = run_script(script, job)[LENGTH_BYTES:]
    (reason,) = msgspec.json.decode(done, type=Verdict).reasons
    assert reason.code == ReasonCode.VALIDATION_LIMIT
    assert str(512 * 1024 * 1024) in reason.message


def million_empty_tensors(weights: Path) -> None:
    entry = '"t%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    header = "{" + ",".join(entry % number for number in range(1_000_000)) + "}"
    weights.write_bytes(struct.pack("<Q", len(header)) + header.encode())


def blank_header(weights: Path) -> None:
    weights.write_bytes(struct.pack("<Q", 99_000_000) + b"{" + b" " * 98_999_998 + b"}")


def repeated_keys(weights: Path) -> None:
    entry = b'"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
    header = b"{" + entry + b"," + entry + b"}"
    weights.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))


def path_as_a_name(weights: Path) -> None:
    header = b'{"../../etc/passwd":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    weights.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))


def header_of_nothing_but_brackets(weights: Path) -> None:
    header = b'{"a":' + b"[" * 8_000_000 + b"}"
    weights.write_bytes(struct.pack("<Q", len(header)) + header)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (million_empty_tensors, "claims a header of"),
        (blank_header, "claims a header of 99000000 bytes"),
        (repeated_keys, "repeats the key 't'"),
        (path_as_a_name, "../../etc/passwd"),
        (header_of_nothing_but_brackets, "deeper"),
    ],
)
def test_a_hostile_file_is_refused_fast(
    tmp_path: Path, write: Callable[[Path], None], words: str
) -> None:
    weights = tmp_path / "adapter_model.safetensors"
    write(weights)
    begun_at = time.monotonic()
    verdict = validate_files(CONFIG, weights, SMOLLM2, ValidationLimits(cpu_seconds=2))
    assert time.monotonic() - begun_at < 15  # a busy machine; alone it takes half a second
    (reason,) = verdict.reasons
    assert reason.code == ReasonCode.FILE_MALFORMED
    assert words in reason.message


def test_silence_past_the_time_limit_is_no_verdict(tmp_path: Path) -> None:
    fifo = tmp_path / "adapter_config.json"
    os.mkfifo(fifo)
    with pytest.raises(ValidatorFailed, match="within 1 s"):
        validate_files(fifo, WEIGHTS, SMOLLM2, ValidationLimits(seconds=1))


def test_a_crash_is_no_verdict_and_tells_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(ValidatorFailed, match="No such file"):
        validate_files(tmp_path / "missing", WEIGHTS, SMOLLM2, LIMITS)


def test_a_validator_that_cannot_start_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "POOL", ValidatorPool())
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ValidatorFailed, match="could not start"):
        validate_files(CONFIG, WEIGHTS, SMOLLM2, LIMITS)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[ValidatorPool]:
    """A pool of the test's own, in the place of the process's."""
    own = ValidatorPool()
    monkeypatch.setattr(validation, "POOL", own)
    yield own
    own.close()


def idle(pool: ValidatorPool) -> ValidatorProcess:
    process = pool.take(LIMITS.memory_bytes, is_fresh=False)
    assert not process.is_fresh, "one waits"
    pool.give_back(process, LIMITS.memory_bytes)
    return process


def test_uploads_share_a_process_until_it_has_checked_enough(
    pool: ValidatorPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validator_pool, "MAX_UPLOADS", 2)
    first = validate_files(CONFIG, WEIGHTS, SMOLLM2, LIMITS)
    process = idle(pool)
    assert validate_files(CONFIG, WEIGHTS, SMOLLM2, LIMITS) == first
    assert process.answers == 2
    assert process.poll() is not None, "it has been ended"
    assert validate_files(CONFIG, WEIGHTS, SMOLLM2, LIMITS) == first
    assert idle(pool) is not process


def test_a_validator_that_died_while_it_waited_costs_no_upload_anything(
    pool: ValidatorPool,
) -> None:
    first = validate_files(CONFIG, WEIGHTS, SMOLLM2, LIMITS)
    os.kill(idle(pool).process_id, signal.SIGKILL)
    assert validate_files(CONFIG, WEIGHTS, SMOLLM2, LIMITS) == first


def test_a_slow_upload_ends_its_process_and_no_other_upload(
    pool: ValidatorPool, tmp_path: Path
) -> None:
    limits = ValidationLimits(seconds=60, cpu_seconds=1)
    adapter = sample()
    adapter.write(tmp_path)
    slow = tmp_path / "slow.json"
    slow.write_text(json.dumps(adapter.config | {"rank_pattern": {"(([a-z_.0-9]+)+)+#": 4}}))
    good, weights = tmp_path / "adapter_config.json", tmp_path / "adapter_model.safetensors"
    for config, is_good in ((good, True), (slow, False), (good, True)):
        verdict = validate_files(config, weights, TINY, limits)
        assert (verdict.spec is not None) == is_good


def test_each_upload_has_computing_time_of_its_own() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF)
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    try:
        validator.allow_computing(7)
        until, _ = resource.getrlimit(resource.RLIMIT_CPU)
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
    assert 7 <= until - (before.ru_utime + before.ru_stime) <= 9


def test_a_process_that_crashed_on_an_upload_alone_is_told_from_one_that_failed(
    pool: ValidatorPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    monkeypatch.setattr(validator_pool, "COMMAND", ("-c", crash))
    with pytest.raises(ValidatorCrashed, match="-11"):
        validate_files(CONFIG, WEIGHTS, SMOLLM2, LIMITS)
    monkeypatch.setattr(validator_pool, "COMMAND", ("-c", crash.replace("SEGV", "KILL")))
    with pytest.raises(ValidatorFailed, match="-9") as failed:
        validate_files(CONFIG, WEIGHTS, SMOLLM2, LIMITS)
    assert not isinstance(failed.value, ValidatorCrashed)


def test_the_validator_holds_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LORAPLEX_SECRET_KEY", "hush")
    assert not [name for name in validator_pool.environment() if name.startswith("LORAPLEX_")]


def test_the_validator_never_imports_what_it_does_not_need() -> None:
    job = Job(str(CONFIG), str(WEIGHTS), SMOLLM2, 512 * 1024 * 1024, 20)
    script = (
        "import sys\n"
        "from loraplex.adapters_registry.validator import main\n"
        "main()\n"
        "for name in ('torch', 'sqlalchemy', 'boto3', 'botocore', 'transformers', 'celery'):\n"
        "    assert name not in sys.modules, name\n"
    )
    assert json.loads(run_script(script, job)[LENGTH_BYTES:])["reasons"] == []


def test_the_validator_cannot_start_children_or_write_big_files() -> None:
    job = Job(str(CONFIG), str(WEIGHTS), SMOLLM2, 512 * 1024 * 1024, 20)
    script = (
        "import sys, resource\n"
        "from loraplex.adapters_registry.validator import *\n"
        "limit(msgspec.json.decode(read_frame(sys.stdin.buffer), type=Job))\n"
        "for kind in ('NPROC', 'CORE', 'FSIZE', 'AS', 'CPU', 'NOFILE'):\n"
        "    print(kind, resource.getrlimit(getattr(resource, 'RLIMIT_' + kind))[1])\n"
    )
    limits = dict(line.split() for line in run_script(script, job).decode().splitlines())
    assert limits == {
        "NPROC": "0",
        "CORE": "0",
        "FSIZE": str(64 * 1024 * 1024),
        "AS": str(512 * 1024 * 1024),
        "CPU": str(1 + 101 * 21),
        "NOFILE": "64",
    }


def run_script(script: str, job: Job) -> bytes:
    """What a script that gets the job, as the validator does, prints."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=framed(msgspec.json.encode(job)),
        env=validator_pool.environment(),
        capture_output=True,
        check=True,
    )
    return done.stdout
