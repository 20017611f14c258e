"""What a worker process reads from its environment."""

import msgspec
import pytest

from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.protocol.workers import Role
from loraplex.engine.serving.environment import MissingSetting, WorkerEnvironment

CONFIG = EngineConfig(model_dir="/m", base_name="b", adapter_cache_dir="/c", threads=2)
COMPLETE = {
    "LORAPLEX_WORKER_CONFIG": msgspec.json.encode(CONFIG).decode(),
    "LORAPLEX_WORKER_ID": "w1",
    "LORAPLEX_CONTROLLER_URL": "http://127.0.0.1:1",
    "LORAPLEX_WORKER_TOKEN": "very secret",
    "LORAPLEX_GATEWAY_CURVE_PUBLIC_KEY": "k",
}


def test_a_complete_environment_is_read() -> None:
    environment = WorkerEnvironment.read(COMPLETE)
    assert environment.config == CONFIG
    assert environment.role is Role.UNIFIED
    assert "very secret" not in repr(environment)


@pytest.mark.parametrize("name", COMPLETE)
def test_what_is_missing_is_named(name: str) -> None:
    with pytest.raises(MissingSetting, match=name):
        WorkerEnvironment.read({key: value for key, value in COMPLETE.items() if key != name})
