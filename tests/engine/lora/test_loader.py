"""Loads run on threads that yield to the steps; each ends with one result."""

import os
import sys
import threading
from pathlib import Path

import torch

from loraplex.engine.adapter_source import AdapterSource
from loraplex.engine.lora.loader import AdapterLoader, LoadJob
from loraplex.engine.lora.packing import AdapterFile
from loraplex.engine.memory.pool import PageId
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import AdapterUnavailable
from loraplex.engine.protocol.identity import Digest, TenantNamespace
from tests.engine.lora.files import PAGE_ELEMENTS, PATHS, adapter_file, random_tensors, unpacked

NAMESPACE = TenantNamespace("tests")


class WatchedSource(AdapterSource):
    """Hands out the path in a reference; remembers which priority it was asked at."""

    def __init__(self) -> None:
        self.priorities: list[int] = []

    def fetch(self, ref: AdapterRef) -> Path:
        if sys.platform == "linux":
            thread = threading.get_native_id()
            self.priorities.append(os.getpriority(os.PRIO_PROCESS, thread))
        if not ref.url:
            raise RuntimeError("the source is broken")
        return Path(ref.url)


def job(file: AdapterFile, name: str, url: str, first_page: int) -> LoadJob:
    pages = [PageId(first_page + page) for page in range(file.layout.pages)]
    ref = AdapterRef(spec=file.spec, namespace=NAMESPACE, url=url)
    return LoadJob((NAMESPACE, Digest(name)), ref, file.layout, pages)


def test_loads_end_with_a_result_each_on_threads_that_yield() -> None:
    pool = torch.zeros(40, PAGE_ELEMENTS)
    source, ended = WatchedSource(), threading.Semaphore(0)
    loader = AdapterLoader(source, pool, ended.release)
    with adapter_file(random_tensors(dict.fromkeys(PATHS, 5), torch.float32)) as file:
        good = job(file, "good", str(file.path), 3)
        loader.submit(good)
        loader.submit(job(file, "missing", str(file.path) + ".gone", 12))
        loader.submit(job(file, "broken", "", 20))
        for _ in range(3):
            assert ended.acquire(timeout=30)
        errors = {str(result.key[1]): result.error for result in loader.collect()}
        found = unpacked(file, pool, good.pages)
        direct = torch.zeros(file.layout.pages, PAGE_ELEMENTS)
        file.pack(list(direct))
        wanted = unpacked(file, direct)
    loader.close()
    assert errors.keys() == {"good", "missing", "broken"}
    assert errors["good"] is None
    assert isinstance(errors["missing"], AdapterUnavailable)
    assert isinstance(errors["broken"], AdapterUnavailable)
    for path in PATHS:
        assert torch.equal(found[path][0], wanted[path][0])
        assert torch.equal(found[path][1], wanted[path][1])
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert all(priority > own or own == 19 for priority in source.priorities)


class BusySource(WatchedSource):
    """Is in the middle of a fetch until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.let_go = threading.Event(), threading.Event()

    def fetch(self, ref: AdapterRef) -> Path:
        self.entered.set()
        assert self.let_go.wait(30)
        return super().fetch(ref)


def test_closing_waits_for_what_the_threads_are_at() -> None:
    before = set(threading.enumerate())
    source = BusySource()
    loader = AdapterLoader(source, torch.zeros(40, PAGE_ELEMENTS), lambda: None)
    with adapter_file(random_tensors(dict.fromkeys(PATHS, 5), torch.float32)) as file:
        loader.submit(job(file, "good", str(file.path), 3))
        assert source.entered.wait(30)
        threading.Timer(0.2, source.let_go.set).start()
        loader.close()
        assert [result.error for result in loader.collect()] == [None]
    begun = [t.name for t in threading.enumerate() if t not in before]
    assert not [name for name in begun if name.startswith("adapter-")]
