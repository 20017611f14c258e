"""A file is read while it comes; a transfer that breaks is told, and never served."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loraplex.adapters_registry import blob_fetch, transfer
from loraplex.adapters_registry.residency import NodeCache
from loraplex.adapters_registry.transfer import FollowedFile
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import AdapterUnavailable, TransferBroke
from tests.adapters_registry.blob_server import Answer, Blobs

DATA = os.urandom(300_000)
HALF = len(DATA) // 2


class HalfwayStore:
    """Sends half of an object, and the rest when it is told to."""

    def __init__(self, blobs: Blobs) -> None:
        self.go_on = threading.Event()
        blobs.script = self._send

    def _send(self, answer: Answer) -> bool:
        answer.send_bytes(DATA[:HALF], len(DATA))
        answer.wfile.flush()
        self.go_on.wait(30)
        answer.wfile.write(DATA[HALF:])
        return True


@pytest.fixture
def cache(tmp_path: Path) -> NodeCache:
    return NodeCache(tmp_path / "cache", 10_000_000)


def read(file: FollowedFile, start: int, end: int) -> bytes:
    file.wait_for(end)
    return os.pread(file.handle, end - start, start)


def read_along(cache: NodeCache, ref: AdapterRef) -> bytes:
    with cache.follow(ref) as file:
        return cache.fetch(ref).read_bytes() if file is None else read(file, 0, len(DATA))


def test_the_first_half_is_read_before_the_second_has_been_sent(
    blobs: Blobs, cache: NodeCache
) -> None:
    store = HalfwayStore(blobs)
    with cache.follow(blobs.ref(DATA)) as file:
        assert file is not None
        first = read(file, 0, HALF)
        store.go_on.set()
        assert first + read(file, HALF, len(DATA)) == DATA


def test_what_was_followed_is_kept_and_then_read_whole(blobs: Blobs, cache: NodeCache) -> None:
    ref = blobs.ref(DATA)
    assert read_along(cache, ref) == DATA
    assert cache.fetch(ref).read_bytes() == DATA
    with cache.follow(ref) as file:
        assert file is None
    assert len(blobs.requests) == 1


def test_many_follow_one_transfer(blobs: Blobs, cache: NodeCache) -> None:
    store, ref = HalfwayStore(blobs), blobs.ref(DATA)
    with ThreadPoolExecutor(16) as threads:
        found = [threads.submit(read_along, cache, ref) for _ in range(16)]
        store.go_on.set()
        assert {one.result() for one in found} == {DATA}
    assert len(blobs.requests) == 1


def test_a_transfer_that_is_begun_anew_breaks_for_those_who_read_along(
    blobs: Blobs, cache: NodeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_fetch, "FIRST_WAIT_SECONDS", 0.01)
    ref = blobs.ref(DATA)

    def break_off_once(answer: Answer) -> bool:
        blobs.script = lambda _: False
        answer.send_bytes(DATA[:HALF], len(DATA))
        return True

    blobs.script = break_off_once
    with pytest.raises(TransferBroke), cache.follow(ref) as file:
        assert file is not None
        read(file, 0, len(DATA))
    assert cache.fetch(ref).read_bytes() == DATA
    assert len(blobs.requests) == 2


def test_a_transfer_that_fails_for_good_tells_why(blobs: Blobs, cache: NodeCache) -> None:
    ref = blobs.ref(DATA)
    blobs.objects.clear()
    with pytest.raises(AdapterUnavailable, match="answered 404"), cache.follow(ref) as file:
        assert file is not None
        read(file, 0, len(DATA))


def test_nobody_reads_along_for_ever(
    blobs: Blobs, cache: NodeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "FOLLOW_SECONDS", 0.05)
    store, ref = HalfwayStore(blobs), blobs.ref(DATA)
    threading.Timer(0.3, store.go_on.set).start()
    with pytest.raises(TransferBroke), cache.follow(ref) as file:
        assert file is not None
        read(file, 0, len(DATA))
    assert cache.fetch(ref).read_bytes() == DATA
    assert len(blobs.requests) == 1
