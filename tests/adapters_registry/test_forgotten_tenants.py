"""What a machine's disk keeps of tenants that are deleted: nothing, whoever was in the middle."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loraplex.adapters_registry.residency import NodeCache
from loraplex.engine.protocol.errors import AdapterUnavailable
from loraplex.engine.protocol.identity import TenantNamespace
from tests.adapters_registry.blob_server import Answer, Blobs

DATA = bytes(range(256)) * 40
GONE, STAYS = TenantNamespace("gone"), TenantNamespace("stays")


@pytest.fixture
def cache(tmp_path: Path) -> NodeCache:
    return NodeCache(tmp_path / "cache", 1_000_000)


def folders(cache: NodeCache) -> set[str]:
    return {path.name for path in cache.cache_dir.iterdir()}


def disk_bytes(cache: NodeCache) -> int:
    return cache.tiers()[0].bytes


def test_a_tenants_files_go_with_it_and_no_other_tenants(blobs: Blobs, cache: NodeCache) -> None:
    cache.fetch(blobs.ref(DATA, namespace=GONE))
    corrupt = blobs.ref(DATA + b"1", namespace=GONE)
    cache.fetch(corrupt)
    cache.distrust(corrupt)
    kept = cache.fetch(blobs.ref(DATA, namespace=STAYS))
    for _ in range(2):  # it is told again and again
        cache.forget([GONE, TenantNamespace("never-here")])
        assert folders(cache) == {STAYS}
    assert kept.read_bytes() == DATA
    assert disk_bytes(cache) == len(DATA)


def test_a_namespace_that_is_a_path_removes_nothing(
    blobs: Blobs, cache: NodeCache, tmp_path: Path
) -> None:
    cache.fetch(blobs.ref(DATA, namespace=STAYS))
    (tmp_path / "other").mkdir()
    cache.forget([TenantNamespace(name) for name in ("", ".", "..", "../other", str(tmp_path))])
    assert folders(cache) == {STAYS}
    assert (tmp_path / "other").is_dir()


def test_who_still_fetches_leaves_nothing_that_stays(blobs: Blobs, cache: NodeCache) -> None:
    entered, may_go_on = threading.Event(), threading.Event()

    def hold(answer: Answer) -> bool:
        entered.set()
        return not may_go_on.wait(30)

    blobs.script = hold
    with ThreadPoolExecutor(1) as pool:
        fetch = pool.submit(cache.fetch, blobs.ref(DATA, namespace=GONE))
        assert entered.wait(30)
        cache.forget([GONE])
        may_go_on.set()
        with pytest.raises(AdapterUnavailable, match="cannot be kept on this machine"):
            fetch.result(timeout=30)
    cache.forget([GONE])
    assert folders(cache) == set()
