"""How bytes come from the store: in ranges, again after a stumble, and never wrong ones."""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from loraplex.adapters_registry import blob_fetch
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.residency import NodeCache
from loraplex.engine.protocol.adapter import AdapterRef, AdapterSpec
from loraplex.engine.protocol.errors import AdapterUnavailable
from loraplex.engine.protocol.identity import TenantNamespace, digest_of_bytes, digest_of_file
from tests.adapters_registry.blob_server import Answer, Blobs
from tests.adapters_registry.caching import DATA, files


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_store_that_stumbles_is_asked_again(blobs: Blobs, cache: NodeCache, status: int) -> None:
    ref = blobs.ref(DATA)

    def stumble(answer: Answer) -> bool:
        if len(blobs.requests) > 2:
            return False
        answer.send_error(status)
        return True

    blobs.script = stumble
    assert cache.fetch(ref).read_bytes() == DATA
    assert len(blobs.requests) == 3


@pytest.mark.parametrize("status", [403, 404])
def test_a_final_refusal_is_not_asked_again(blobs: Blobs, cache: NodeCache, status: int) -> None:
    ref = blobs.ref(DATA)

    def refuse(answer: Answer) -> bool:
        answer.send_error(status)
        return True

    blobs.script = refuse
    with pytest.raises(AdapterUnavailable, match=str(status)) as refused:
        cache.fetch(ref)
    assert ref.url not in refused.value.message
    assert len(blobs.requests) == 1
    assert files(cache) == set()


def send_other_bytes(answer: Answer) -> bool:
    answer.send_bytes(DATA[:-1] + b"!", len(DATA))
    return True


def break_off(answer: Answer) -> bool:
    answer.send_bytes(DATA[:100], len(DATA))
    return True


def send_too_few(answer: Answer) -> bool:
    answer.send_bytes(DATA[:100], 100)
    return True


def send_too_many(answer: Answer) -> bool:
    answer.send_bytes(DATA + b"!", len(DATA) + 1)
    return True


def fail(answer: Answer) -> bool:
    answer.send_error(500)
    return True


@pytest.mark.parametrize(
    "misbehave", [send_other_bytes, break_off, send_too_few, send_too_many, fail]
)
def test_wrong_bytes_are_never_kept_and_the_right_ones_are_had_later(
    blobs: Blobs, cache: NodeCache, misbehave: Callable[[Answer], bool]
) -> None:
    ref = blobs.ref(DATA)
    blobs.script = misbehave
    with pytest.raises(AdapterUnavailable):
        cache.fetch(ref)
    assert files(cache) == set()
    blobs.script = lambda answer: False
    assert cache.fetch(ref).read_bytes() == DATA


def test_an_unreachable_store_is_named_as_the_reason(blobs: Blobs, cache: NodeCache) -> None:
    ref = blobs.ref(DATA)
    blobs.server_close()
    with pytest.raises(AdapterUnavailable, match="cannot be reached"):
        cache.fetch(ref)


LARGE = bytes(range(256)) * 4096 * 20  # 20 MiB: three ranges


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_large_object_comes_in_ranges_where_the_store_knows_them(
    blobs: Blobs, tmp_path: Path, knows_ranges: bool
) -> None:
    blobs.knows_ranges = knows_ranges
    cache = NodeCache(tmp_path / "cache", 10**9)
    assert cache.fetch(blobs.ref(LARGE)).read_bytes() == LARGE
    assert len(blobs.requests) == (3 if knows_ranges else 1)


def test_a_large_object_of_the_real_store_comes_whole(store: ObjectStore, tmp_path: Path) -> None:
    key = f"tests/{uuid4().hex}"
    store.put(key, LARGE)
    digest = digest_of_bytes(LARGE)
    spec = AdapterSpec(digest, digest, digest, len(LARGE), ())
    ref = AdapterRef(spec, TenantNamespace("tenant"), store.presign_get(key, 60))
    cache = NodeCache(tmp_path / "cache", 10**9)
    assert digest_of_file(cache.fetch(ref)) == digest


def test_a_range_that_fails_is_asked_again_with_all_others(blobs: Blobs, tmp_path: Path) -> None:
    def stumble(answer: Answer) -> bool:
        if len(blobs.requests) != 3:
            return False
        answer.send_error(500)
        return True

    blobs.script = stumble
    cache = NodeCache(tmp_path / "cache", 10**9)
    assert cache.fetch(blobs.ref(LARGE)).read_bytes() == LARGE
    assert len(blobs.requests) == 6


def test_a_store_that_trickles_is_given_up(
    blobs: Blobs, cache: NodeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_fetch, "TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(blob_fetch, "FIRST_WAIT_SECONDS", 0.01)
    over = threading.Event()

    def trickle(answer: Answer) -> bool:
        answer.send_bytes(b"", len(DATA))
        with suppress(OSError):
            while not over.wait(0.02):
                answer.wfile.write(b"x")
        return True

    blobs.script = trickle
    with pytest.raises(AdapterUnavailable, match="too slowly"):
        cache.fetch(blobs.ref(DATA))
    over.set()
