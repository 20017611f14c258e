import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from loraplex.adapters_registry import blob_fetch
from loraplex.adapters_registry.cache_folder import ABANDONED_SECONDS
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.residency import NodeCache
from loraplex.engine.protocol.adapter import AdapterRef, AdapterSpec
from loraplex.engine.protocol.errors import AdapterUnavailable
from loraplex.engine.protocol.identity import TenantNamespace, digest_of_bytes, digest_of_file
from tests.adapters_registry.blob_server import Answer, Blobs

DATA = bytes(range(256)) * 40
BUDGET_BYTES = 1_000_000


@pytest.fixture
def cache(tmp_path: Path) -> NodeCache:
    return NodeCache(tmp_path / "cache", BUDGET_BYTES, hold_seconds=0)


def files(cache: NodeCache) -> set[str]:
    return {path.suffix for path in cache.cache_dir.glob("*/*")}


def test_an_adapter_is_fetched_once_and_then_read_from_disk(blobs: Blobs, cache: NodeCache) -> None:
    ref = blobs.ref(DATA)
    path = cache.fetch(ref)
    assert path.read_bytes() == DATA
    assert cache.fetch(ref) == path
    assert NodeCache(cache.cache_dir, BUDGET_BYTES).fetch(ref) == path
    assert len(blobs.requests) == 1


def test_a_presigned_url_of_the_real_store_is_enough(store: ObjectStore, cache: NodeCache) -> None:
    key = f"tests/{uuid4().hex}"
    store.put(key, DATA)
    digest = digest_of_bytes(DATA)
    spec = AdapterSpec(digest, digest, digest, len(DATA), ())
    ref = AdapterRef(spec, TenantNamespace("tenant"), store.presign_get(key, 60))
    assert cache.fetch(ref).read_bytes() == DATA


def test_requests_at_once_share_one_fetch(blobs: Blobs, cache: NodeCache) -> None:
    ref = blobs.ref(DATA)
    entered, others_wait = threading.Event(), threading.Event()

    def hold(answer: Answer) -> bool:
        entered.set()
        return not others_wait.wait(30)

    blobs.script = hold
    with ThreadPoolExecutor(20) as pool:
        first = pool.submit(cache.fetch, ref)
        assert entered.wait(30)
        rest = [pool.submit(cache.fetch, ref) for _ in range(19)]
        others_wait.set()
        paths = {future.result() for future in (first, *rest)}
    assert len(paths) == 1
    assert len(blobs.requests) == 1


def test_one_expired_url_does_not_fail_those_who_waited_with_a_good_one(
    blobs: Blobs, cache: NodeCache
) -> None:
    good, expired = blobs.ref(DATA), blobs.ref(DATA, path="/expired")
    entered, release = threading.Event(), threading.Event()

    def refuse_expired(answer: Answer) -> bool:
        if answer.path != "/expired":
            return False
        entered.set()
        release.wait(30)
        answer.send_error(403)
        return True

    blobs.script = refuse_expired
    with ThreadPoolExecutor(2) as pool:
        unlucky = pool.submit(cache.fetch, expired)
        assert entered.wait(30)
        lucky = pool.submit(cache.fetch, good)
        release.set()
        with pytest.raises(AdapterUnavailable, match="403"):
            unlucky.result()
        assert lucky.result().read_bytes() == DATA


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


def test_a_file_that_was_found_corrupt_is_put_aside_and_fetched_anew(
    blobs: Blobs, cache: NodeCache
) -> None:
    ref = blobs.ref(DATA)
    cache.fetch(ref).write_bytes(DATA[:-1] + bytes([DATA[-1] ^ 1]))
    cache.distrust(ref)
    assert cache.fetch(ref).read_bytes() == DATA
    assert len(blobs.requests) == 2
    assert files(cache) == {".safetensors", ".corrupt"}
    disk, _ = cache.tiers()
    assert disk.corrupt == 1


def test_processes_at_once_share_one_fetch(blobs: Blobs, cache: NodeCache) -> None:
    """Three processes and a hundred threads; the answer waits until all have come."""
    ref = blobs.ref(DATA)
    release = threading.Event()

    def hold(answer: Answer) -> bool:
        return not release.wait(30)

    blobs.script = hold
    script = (
        "import sys, msgspec\n"
        "from pathlib import Path\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from loraplex.adapters_registry.residency import NodeCache\n"
        "from loraplex.engine.protocol.adapter import AdapterRef\n"
        "cache = NodeCache(Path(sys.argv[1]), 10**6)\n"
        "ref = msgspec.json.decode(sys.argv[2], type=AdapterRef)\n"
        "print('ready', flush=True)\n"
        "with ThreadPoolExecutor(33) as threads:\n"
        "    paths = set(threads.map(lambda _: cache.fetch(ref), range(33)))\n"
        "assert len(paths) == 1\n"
        "sys.stdout.write(paths.pop().read_bytes().hex()[:8])\n"
    )
    command = [
        sys.executable,
        "-c",
        script,
        str(cache.cache_dir),
        msgspec.json.encode(ref).decode(),
    ]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    release.set()
    for process in processes:
        assert process.communicate(timeout=60)[0] == DATA.hex()[:8]
        assert process.returncode == 0
    assert len(blobs.requests) == 1
    assert files(cache) == {".safetensors"}


def test_the_flight_of_a_process_that_is_killed_is_taken_over(
    blobs: Blobs, cache: NodeCache
) -> None:
    ref = blobs.ref(DATA)
    entered = threading.Event()

    def hang_once(answer: Answer) -> bool:
        if len(blobs.requests) > 1:
            return False
        entered.set()
        return not over.wait(30)

    over = threading.Event()
    blobs.script = hang_once
    script = (
        "import sys, msgspec\n"
        "from pathlib import Path\n"
        "from loraplex.adapters_registry.residency import NodeCache\n"
        "from loraplex.engine.protocol.adapter import AdapterRef\n"
        "ref = msgspec.json.decode(sys.argv[2], type=AdapterRef)\n"
        "NodeCache(Path(sys.argv[1]), 10**6).fetch(ref)\n"
    )
    command = [
        sys.executable,
        "-c",
        script,
        str(cache.cache_dir),
        msgspec.json.encode(ref).decode(),
    ]
    with subprocess.Popen(command) as process:
        assert entered.wait(60)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(cache.fetch, ref)
            process.kill()
            assert waiting.result(30).read_bytes() == DATA
    over.set()


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


def test_tenants_with_the_same_bytes_do_not_share_a_file(blobs: Blobs, cache: NodeCache) -> None:
    one = cache.fetch(blobs.ref(DATA, namespace="one"))
    other = cache.fetch(blobs.ref(DATA, namespace="other"))
    assert one != other
    assert len(blobs.requests) == 2


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


@pytest.mark.parametrize("namespace", ["", "..", "a/b", "/etc", "a" * 200])
def test_a_namespace_that_is_a_path_is_refused(
    blobs: Blobs, cache: NodeCache, namespace: str
) -> None:
    with pytest.raises(AdapterUnavailable, match="malformed"):
        cache.fetch(blobs.ref(DATA, namespace=namespace))


def test_only_http_addresses_are_fetched(cache: NodeCache, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(DATA)
    digest = digest_of_bytes(DATA)
    spec = AdapterSpec(digest, digest, digest, len(DATA), ())
    ref = AdapterRef(spec, TenantNamespace("tenant"), (tmp_path / "secret").as_uri())
    with pytest.raises(AdapterUnavailable, match="neither http nor https"):
        cache.fetch(ref)


def test_a_disk_that_refuses_is_named_as_the_reason(blobs: Blobs, cache: NodeCache) -> None:
    (cache.cache_dir / "tenant").write_bytes(b"a file where a folder should be")
    with pytest.raises(AdapterUnavailable, match="cannot be kept on this machine"):
        cache.fetch(blobs.ref(DATA))


def test_residency_brings_neither_database_nor_tensors_into_a_worker() -> None:
    script = (
        "import sys, loraplex.adapters_registry.residency\n"
        "for name in ('sqlalchemy', 'boto3', 'torch', 'celery', 'pydantic', 'numpy'):\n"
        "    assert name not in sys.modules, name\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
