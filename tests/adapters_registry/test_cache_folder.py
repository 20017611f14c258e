"""What stays on the disk, and who makes room for whom."""

import errno
import os
import time
from pathlib import Path

import pytest

from loraplex.adapters_registry import blob_fetch
from loraplex.adapters_registry.cache_folder import ABANDONED_SECONDS
from loraplex.adapters_registry.residency import NodeCache
from loraplex.engine.protocol.errors import AdapterUnavailable
from tests.adapters_registry.blob_server import Blobs
from tests.adapters_registry.caching import BUDGET_BYTES, DATA, files


def test_a_full_disk_makes_room_and_is_tried_once_more(
    blobs: Blobs, cache: NodeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = cache.fetch(blobs.ref(bytes([9]) + DATA[1:]))
    write_all, writes = blob_fetch.write_all, []

    def full_at_first(target: int, data: bytes, start: int | None) -> None:
        writes.append(data)
        if len(writes) == 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_all(target, data, start)

    monkeypatch.setattr(blob_fetch, "write_all", full_at_first)
    assert cache.fetch(blobs.ref(DATA)).read_bytes() == DATA
    assert not kept.exists()


def test_a_disk_that_stays_full_is_named_as_the_reason_and_nothing_is_left(
    blobs: Blobs, cache: NodeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(target: int, data: bytes, start: int | None) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(blob_fetch, "write_all", full)
    with pytest.raises(AdapterUnavailable, match="No space left"):
        cache.fetch(blobs.ref(DATA))
    assert files(cache) == set()
    monkeypatch.undo()
    assert cache.fetch(blobs.ref(DATA)).read_bytes() == DATA


def test_a_tenant_beyond_its_share_makes_room_before_the_others(
    blobs: Blobs, tmp_path: Path
) -> None:
    cache = NodeCache(tmp_path / "cache", 8 * len(DATA), hold_seconds=0)
    modest = [cache.fetch(blobs.ref(bytes([i]) + DATA[1:], namespace="modest")) for i in range(2)]
    for number in range(20):
        cache.fetch(blobs.ref(bytes([number]) + DATA[1:], namespace="greedy"))
    assert all(path.exists() for path in modest)
    assert sum(path.stat().st_size for path in cache.cache_dir.glob("*/*")) <= 8 * len(DATA)
    disk, store = cache.tiers()
    assert (disk.misses, store.hits, disk.evictions) == (22, 22, 14)
    assert disk.bytes == 8 * len(DATA)


def test_what_was_used_longest_ago_makes_room(blobs: Blobs, tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", 3 * len(DATA), hold_seconds=0)
    refs = [blobs.ref(bytes([i]) + DATA[1:]) for i in range(4)]
    paths = [cache.fetch(ref) for ref in refs[:3]]
    for age, path in enumerate(reversed(paths), start=1):
        os.utime(path, (time.time() - age, time.time() - age))
    cache.fetch(refs[0])  # used again, so the second is now the oldest
    paths.append(cache.fetch(refs[3]))
    assert [path.exists() for path in paths] == [True, False, True, True]


def test_a_file_in_use_is_not_evicted_even_beyond_the_budget(blobs: Blobs, tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", 2 * len(DATA), hold_seconds=60)
    paths = [cache.fetch(blobs.ref(bytes([i]) + DATA[1:])) for i in range(4)]
    assert all(path.exists() for path in paths)


def test_corrupt_files_are_the_first_to_go(blobs: Blobs, tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", 2 * len(DATA), hold_seconds=0)
    first, second = blobs.ref(DATA), blobs.ref(bytes([7]) + DATA[1:])
    cache.fetch(first)
    cache.distrust(first)
    cache.fetch(first)
    assert files(cache) == {".safetensors", ".corrupt"}
    cache.fetch(second)
    assert files(cache) == {".safetensors"}
    assert cache.fetch(first).exists()


def test_a_start_clears_what_a_dead_process_left_and_nothing_else(
    blobs: Blobs, cache: NodeCache
) -> None:
    folder = cache.fetch(blobs.ref(DATA)).parent
    abandoned, running = folder / "a.partial", folder / "b.partial"
    abandoned.touch()
    running.touch()
    old = time.time() - ABANDONED_SECONDS - 1
    os.utime(abandoned, (old, old))
    NodeCache(cache.cache_dir, BUDGET_BYTES)
    assert not abandoned.exists()
    assert running.exists()
    assert len(list(folder.glob("*.safetensors"))) == 1


def test_a_disk_that_refuses_is_named_as_the_reason(blobs: Blobs, cache: NodeCache) -> None:
    (cache.cache_dir / "tenant").write_bytes(b"a file where a folder should be")
    with pytest.raises(AdapterUnavailable, match="cannot be kept on this machine"):
        cache.fetch(blobs.ref(DATA))
