"""The time to a first token does not tell whether another tenant has loaded the same adapter."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest

from loraplex.engine.benchmarks.made_adapters import made_adapters
from loraplex.engine.benchmarks.stored_adapters import object_store
from loraplex.engine.core import EngineCore
from loraplex.engine.lora.layout import plan_layout
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.protocol.identity import TenantNamespace, digest_of_bytes
from loraplex.engine.worker import load_adapter_source
from tests.engine.driving import greedy, request, run
from tests.engine.tiny import describe, make_model
from tests.timing import Timed, area, most, worlds

OWN, OTHER = TenantNamespace("own"), TenantNamespace("other")


class Store:
    """Adapters of fresh content, which nobody but the store has."""

    def __init__(self, folder: Path, url: str, pattern: AdapterRef) -> None:
        self._folder = folder
        self._url = url
        self._pattern = pattern
        self._data = bytearray(Path(pattern.url).read_bytes())

    def fresh(self) -> AdapterRef:
        self._data[-2:] = os.urandom(2)  # of an element's fraction and sign: it stays a number
        self._data[-8:-5] = os.urandom(3)
        digest = digest_of_bytes(bytes(self._data))
        (self._folder / digest).write_bytes(self._data)
        spec = msgspec.structs.replace(self._pattern.spec, digest=digest, weights_digest=digest)
        return AdapterRef(spec, OWN, f"{self._url}/{digest}")


@pytest.fixture
def pattern(tmp_path: Path) -> AdapterRef:
    base = make_model(tmp_path / "model", "llama")
    (one,) = made_adapters(tmp_path, describe(base), rank=4, count=1)
    return one


@pytest.fixture
def store(tmp_path: Path, pattern: AdapterRef) -> Iterator[Store]:
    with object_store(tmp_path / "objects", 1e9) as url:
        yield Store(tmp_path / "objects", url, pattern)


@pytest.fixture
def engine(tmp_path: Path, pattern: AdapterRef) -> Iterator[EngineCore]:
    config = EngineConfig(
        model_dir=str(tmp_path / "model"),
        base_name="tiny",
        device="cpu",
        adapter_cache_dir=str(tmp_path / "cache"),
        pool_bytes=2**21,
        host_cache_bytes=2**22,
    )
    core = EngineCore(config, describe(tmp_path / "model"), load_adapter_source(config))
    yield core
    core.close()


def ask(engine: EngineCore, ref: AdapterRef, namespace: TenantNamespace) -> float:
    """Seconds to the first token."""
    adapter = msgspec.structs.replace(ref, namespace=namespace)
    one = msgspec.structs.replace(request("r", [5, 6], greedy(1), adapter), namespace=namespace)
    began_at = time.perf_counter()
    run(engine, one)
    return time.perf_counter() - began_at


def test_a_first_token_does_not_tell(engine: EngineCore, store: Store) -> None:
    samples = []
    for is_known in worlds():
        own, neighbours = store.fresh(), store.fresh()
        ask(engine, own if is_known else neighbours, OTHER)
        samples.append(Timed(is_known, ask(engine, own, OWN)))
    assert area(samples) <= most(samples)


def test_nothing_that_was_worked_out_for_one_tenant_is_kept_for_another(
    engine: EngineCore, store: Store
) -> None:
    one = store.fresh()
    with patch("loraplex.engine.scheduler.loads.plan_layout", wraps=plan_layout) as plan:
        for namespace in (OWN, OTHER, OWN, OTHER):
            ask(engine, one, namespace)
    assert plan.call_count == 2
    device, host, *_ = engine.load().tiers
    assert (device.misses, host.misses) == (2, 2)
