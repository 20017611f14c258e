"""What waits for a store waits without pages or turns, and no tenant fills all places."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from loraplex.engine.lora.arrivals import TENANT_FETCHES_LIMIT, AdapterArrivals
from loraplex.engine.lora.packing import AdapterFile
from loraplex.engine.lora.sourcing import SourcedAdapter
from loraplex.engine.lora.staging import page_writer
from loraplex.engine.memory.residency import AdapterKey
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import AdapterUnavailable
from loraplex.engine.protocol.identity import Digest, TenantNamespace
from tests.engine.gated import GatedSource
from tests.engine.lora.files import PAGE_ELEMENTS, PATHS, adapter_file, random_tensors


class World:
    """One file under any number of names, whose fetches wait for the test."""

    def __init__(self, file: AdapterFile) -> None:
        self.source = GatedSource()
        self.file = file
        self.pages = page_writer(torch.zeros(4, PAGE_ELEMENTS), 400 * PAGE_ELEMENTS * 4)
        self.arrived = threading.Semaphore(0)
        self.arrivals = AdapterArrivals(self.pages, self.arrived.release, lambda: None)

    def named(self, name: str, tenant: str = "one") -> tuple[AdapterKey, SourcedAdapter]:
        namespace = TenantNamespace(tenant)
        ref = AdapterRef(spec=self.file.spec, namespace=namespace, url=str(self.file.path))
        return (namespace, Digest(name)), SourcedAdapter(self.source, ref, self.file.layout)


@pytest.fixture
def world() -> Iterator[World]:
    with opened() as world:
        yield world


@contextmanager
def opened() -> Iterator[World]:
    with adapter_file(random_tensors(dict.fromkeys(PATHS, 3), torch.float32)) as file:
        world = World(file)
        yield world
        world.arrivals.close()


def test_what_was_asked_for_is_told_once_it_is_near(world: World) -> None:
    key, adapter = world.named("a")
    assert not world.arrivals.ask(key, adapter)
    assert not world.arrivals.collect()
    world.source.let_through()
    assert world.arrived.acquire(timeout=30)
    (arrival,) = world.arrivals.collect()
    assert (arrival.key, arrival.error) == (key, None)
    assert world.arrivals.ask(*world.named("a"))


def test_asking_again_while_it_comes_fetches_once(world: World) -> None:
    for _ in range(50):
        assert not world.arrivals.ask(*world.named("a"))
    world.source.let_through()
    assert world.arrived.acquire(timeout=30)
    assert len(world.arrivals.collect()) == 1
    assert world.source.waiting == 0


def test_what_was_only_foretold_is_near_and_told_to_nobody(world: World) -> None:
    key, adapter = world.named("a")
    world.arrivals.foretell(key, adapter)
    assert not world.arrivals.ask(*world.named("b"))
    world.source.let_through()
    world.source.let_through()
    assert world.arrived.acquire(timeout=30)
    assert [one.key[1] for one in world.arrivals.collect()] == ["b"]


def test_a_failure_is_told_with_its_reason_and_asking_again_tries_again(world: World) -> None:
    key, adapter = world.named("a")
    world.arrivals.ask(key, adapter)
    world.source.fail()
    assert world.arrived.acquire(timeout=30)
    (arrival,) = world.arrivals.collect()
    assert isinstance(arrival.error, AdapterUnavailable)
    assert not world.arrivals.ask(*world.named("a"))
    world.source.let_through()
    assert world.arrived.acquire(timeout=30)


def test_a_tenant_whose_fetches_hang_leaves_places_to_others(world: World) -> None:
    for number in range(3 * TENANT_FETCHES_LIMIT):
        world.arrivals.ask(*world.named(f"hangs-{number}", "greedy"))
    world.source.wait_for(TENANT_FETCHES_LIMIT)
    world.arrivals.ask(*world.named("a", "modest"))
    world.source.wait_for(TENANT_FETCHES_LIMIT + 1)
    world.source.let_through(-1)
    assert world.arrived.acquire(timeout=30)
    (arrival,) = world.arrivals.collect()
    assert arrival.key == (TenantNamespace("modest"), Digest("a"))
