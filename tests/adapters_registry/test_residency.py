"""A node's cache: an adapter is fetched once, whoever asks; each tenant has files of its own."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.residency import NodeCache
from loraplex.engine.protocol.adapter import AdapterRef, AdapterSpec
from loraplex.engine.protocol.errors import AdapterUnavailable
from loraplex.engine.protocol.identity import TenantNamespace, digest_of_bytes
from tests.adapters_registry.blob_server import Answer, Blobs
from tests.adapters_registry.caching import BUDGET_BYTES, DATA, files


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


def test_tenants_with_the_same_bytes_do_not_share_a_file(blobs: Blobs, cache: NodeCache) -> None:
    one = cache.fetch(blobs.ref(DATA, namespace="one"))
    other = cache.fetch(blobs.ref(DATA, namespace="other"))
    assert one != other
    assert len(blobs.requests) == 2


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


def test_residency_brings_neither_database_nor_tensors_into_a_worker() -> None:
    script = (
        "import sys, loraplex.adapters_registry.residency\n"
        "for name in ('sqlalchemy', 'boto3', 'torch', 'celery', 'pydantic', 'numpy'):\n"
        "    assert name not in sys.modules, name\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
