"""What a worker is launched with: everything it needs, and nothing it must not have."""

import msgspec
import pytest

from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.serving.environment import WorkerEnvironment
from loraplex.platform.pools.launcher import MissingInternalUrl, available_cores, worker_command
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings

CONFIG = EngineConfig(model_dir="/m", base_name="b", adapter_cache_dir="/c")
SECRETS = SecretKeys(["k" * 40])


def settings(workers: int = 1) -> Settings:
    return Settings(internal_url="http://127.0.0.1:9", workers=workers)


def environment(config: EngineConfig = CONFIG, workers: int = 1) -> dict[str, str]:
    return worker_command(settings(workers), 0, config, SECRETS)[1]


def test_the_worker_understands_what_it_is_launched_with() -> None:
    read = WorkerEnvironment.read(environment())
    assert read.config.model_dir == "/m"
    assert read.controller_url == "http://127.0.0.1:9"
    assert read.gateway_public_key == SECRETS.gateway_curve().public.decode()


def test_credentials_of_the_launcher_stay_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LORAPLEX_DATABASE_URL", "postgresql://app:hunter2@db/x")
    monkeypatch.setenv("LORAPLEX_SECRET_KEY", "hunter2")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("HTTP_PROXY", "http://hunter2@proxy")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    passed = environment()
    assert "hunter2" not in str(passed)
    assert SECRETS.gateway_curve().secret.decode() not in str(passed)
    assert passed["CUDA_VISIBLE_DEVICES"] == "1"


def test_an_operator_chooses_the_kernels_compiler_and_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CXX", "clang++-18")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/loraplex")
    passed = environment()
    assert passed["CXX"] == "clang++-18"
    assert passed["XDG_CACHE_HOME"] == "/var/cache/loraplex"


def test_workers_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for workers in (1, 2, 64):
        read = WorkerEnvironment.read(environment(workers=workers))
        assert read.config.threads == max(1, available_cores() // workers)


def test_an_operators_choice_of_threads_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert WorkerEnvironment.read(environment()).config.threads is None
    chosen = msgspec.structs.replace(CONFIG, threads=7)
    assert WorkerEnvironment.read(environment(chosen)).config.threads == 7


def test_workers_of_one_machine_have_ids_of_their_own() -> None:
    first = worker_command(settings(), 0, CONFIG, SECRETS)[1]["LORAPLEX_WORKER_ID"]
    second = worker_command(settings(), 1, CONFIG, SECRETS)[1]["LORAPLEX_WORKER_ID"]
    assert first != second


def test_a_controller_must_be_known() -> None:
    with pytest.raises(MissingInternalUrl):
        worker_command(Settings(internal_url=None), 0, CONFIG, SECRETS)
