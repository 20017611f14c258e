"""Adapters go through host pages to the pool; what is kept there need not be read again."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from loraplex.engine.lora.copies import Fence
from loraplex.engine.lora.host_tier import HostTier
from loraplex.engine.lora.packing import AdapterFile
from loraplex.engine.lora.staging import DirectWriter, StagedWriter, page_writer
from loraplex.engine.memory.pool import PageId
from loraplex.engine.memory.residency import AdapterKey
from loraplex.engine.protocol.errors import AdapterUnavailable
from loraplex.engine.protocol.identity import Digest, TenantNamespace
from tests.engine.lora.files import PAGE_ELEMENTS, PATHS, adapter_file, random_tensors, unpacked

POOL_PAGES = 40
RANKS = dict.fromkeys(PATHS, 9)


def key(name: str) -> AdapterKey:
    return TenantNamespace("tests"), Digest(name)


class HostCopies:
    """Copies between tensors of the host; keeps the fences it was told to wait for."""

    are_at_once = True

    def __init__(self) -> None:
        self.waited_for: list[Fence] = []

    def fence(self) -> Fence:
        return object()

    def copy(self, sources: list[Tensor], targets: list[Tensor], after: Fence | None) -> None:
        assert after is not None
        self.waited_for.append(after)
        for source, target in zip(sources, targets, strict=True):
            target.copy_(source)


class CountedPacks:
    """Packs a file, and counts how often."""

    def __init__(self, file: AdapterFile) -> None:
        self.file = file
        self.count = 0

    def pack(self, places: Sequence[Tensor], first_page: int = 0) -> None:
        self.count += 1
        self.file.pack(places, first_page)


def staged(host_pages: int) -> tuple[StagedWriter, Tensor, HostCopies]:
    pool = torch.zeros(POOL_PAGES, PAGE_ELEMENTS)
    copies = HostCopies()
    return StagedWriter(pool, torch.zeros(host_pages, PAGE_ELEMENTS), copies), pool, copies


def pages_of(file: AdapterFile, first: int = 0) -> list[PageId]:
    """Pages that do not lie in order."""
    return [PageId(first + page) for page in reversed(range(file.layout.pages))]


def holds(pool: Tensor, pages: list[PageId], file: AdapterFile) -> bool:
    """Whether the pages hold the adapter as packing it directly would have put it there."""
    direct = torch.zeros(POOL_PAGES, PAGE_ELEMENTS)
    DirectWriter(direct).write(key("a"), file, pages, None)
    found, wanted = unpacked(file, pool, pages), unpacked(file, direct, pages)
    return all(
        torch.equal(one, other)
        for path in wanted
        for one, other in zip(found[path], wanted[path], strict=True)
    )


@given(st.integers(1, 30))
def test_any_number_of_host_pages_gives_what_packing_directly_gives(host_pages: int) -> None:
    writer, pool, _ = staged(host_pages)
    with adapter_file(random_tensors(RANKS, torch.float32)) as file:
        pages = pages_of(file, 3)
        for _ in range(2):
            pool.zero_()
            writer.write(key("a"), file, pages, writer.fence())
            assert holds(pool, pages, file)


def test_an_adapter_that_comes_back_is_not_read_again() -> None:
    writer, pool, _ = staged(POOL_PAGES)
    with adapter_file(random_tensors(RANKS, torch.float32)) as file:
        writer.write(key("a"), file, pages_of(file), writer.fence())
        first = unpacked(file, pool, pages_of(file))
    assert not file.path.exists()
    pool.zero_()
    writer.write(key("a"), file, pages_of(file, 5), writer.fence())
    again = unpacked(file, pool, pages_of(file, 5))
    for path in PATHS:
        torch.testing.assert_close(again[path], first[path], atol=0, rtol=0)


def test_what_lies_packed_is_written_at_once_and_what_does_not_is_left_to_a_load() -> None:
    writer, pool, copies = staged(POOL_PAGES)
    with adapter_file(random_tensors(RANKS, torch.float32)) as file:
        pages = pages_of(file, 2)
        assert not writer.write_at_once(key("a"), pages)
        writer.keep(key("a"), file, len(pages))
        assert writer.write_at_once(key("a"), pages)
        assert holds(pool, pages, file)
        assert not copies.waited_for
        assert writer.write_at_once(key("a"), pages)
    load = writer.load()
    assert (load.hits, load.misses) == (1, 1), "the first load is the one that missed"


def test_host_memory_is_held_only_for_small_adapters_that_come_slowly() -> None:
    writer, _, _ = staged(32)
    assert writer.may_wait_for(2)
    assert not writer.may_wait_for(3)


def test_another_tenants_copy_of_an_adapter_is_its_own() -> None:
    writer, _, _ = staged(POOL_PAGES)
    with adapter_file(random_tensors(RANKS, torch.float32)) as file:
        writer.write(key("a"), file, pages_of(file), writer.fence())
    with pytest.raises(FileNotFoundError):
        other = TenantNamespace("other"), Digest("a")
        writer.write(other, file, pages_of(file), writer.fence())


def test_the_adapter_used_longest_ago_makes_room() -> None:
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(adapter_file(random_tensors(RANKS, torch.float32)))
            for name in "abc"
        }
        pages = pages_of(files["a"])
        writer, _, _ = staged(2 * len(pages))
        for name in "abac":
            writer.write(key(name), files[name], pages, writer.fence())
    writer.write(key("a"), files["a"], pages, writer.fence())
    with pytest.raises(FileNotFoundError):
        writer.write(key("b"), files["b"], pages, writer.fence())


def test_a_copy_waits_for_the_steps_before_its_job() -> None:
    writer, _, copies = staged(POOL_PAGES)
    fence = writer.fence()
    with adapter_file(random_tensors(RANKS, torch.float32)) as file:
        writer.write(key("a"), file, pages_of(file), fence)
    assert copies.waited_for == [fence]


def test_a_bad_file_leaves_neither_an_image_nor_a_copy(tmp_path: Path) -> None:
    writer, pool, copies = staged(POOL_PAGES)
    with adapter_file(random_tensors(RANKS, torch.float32)) as file:
        truncated = tmp_path / "truncated"
        truncated.write_bytes(file.path.read_bytes()[:-1])
        bad = AdapterFile(file.spec, file.layout, truncated)
        for _ in range(2):
            with pytest.raises(AdapterUnavailable):
                writer.write(key("a"), bad, pages_of(file), writer.fence())
        assert not copies.waited_for
        writer.write(key("a"), file, pages_of(file), writer.fence())
        assert holds(pool, pages_of(file), file)


def test_loads_that_share_host_pages_take_turns() -> None:
    writer, pool, _ = staged(30)
    with ExitStack() as stack, ThreadPoolExecutor(4) as threads:
        files = [
            stack.enter_context(adapter_file(random_tensors({PATHS[0]: 5 + n}, torch.float32)))
            for n in range(4)
        ]

        def load(turn: int) -> None:
            file = files[turn % 4]
            pages = pages_of(file, 10 * (turn % 4))
            writer.write(key(str(turn % 4)), file, pages, writer.fence())

        for turns in range(0, 40, 4):
            list(threads.map(load, range(turns, turns + 4)))
        for number, file in enumerate(files):
            pages = pages_of(file, 10 * number)
            assert holds(pool, pages, file)


def test_who_wants_pages_that_others_hold_waits_for_them() -> None:
    images = HostTier(3, 1)
    begun, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with images.borrow((key("a"), 0), 2):
            begun.set()
            assert may_end.wait(30)

    def want() -> list[int]:
        with images.borrow((key("b"), 0), 3) as image:
            return image.pages

    with ThreadPoolExecutor(2) as threads:
        holding = threads.submit(hold)
        assert begun.wait(30)
        wanting = threads.submit(want)
        assert not wanting.done()
        may_end.set()
        holding.result(30)
        assert sorted(wanting.result(30)) == [0, 1, 2]


def test_who_wants_an_image_that_is_being_packed_joins_and_packs_nothing() -> None:
    writer, pool, _ = staged(POOL_PAGES)
    with (
        adapter_file(random_tensors(RANKS, torch.float32)) as file,
        ThreadPoolExecutor(8) as threads,
    ):
        packs = CountedPacks(file)
        firsts = range(0, 4 * file.layout.pages, file.layout.pages)

        def load(first: int) -> None:
            writer.write(key("a"), packs, pages_of(file, first), writer.fence())

        list(threads.map(load, firsts))
        assert packs.count == 1
        assert all(holds(pool, pages_of(file, first), file) for first in firsts)


def test_what_is_kept_ahead_of_time_needs_no_file_later() -> None:
    writer, pool, _ = staged(POOL_PAGES)
    with adapter_file(random_tensors(RANKS, torch.float32)) as file:
        assert not writer.holds(key("a"))
        writer.keep(key("a"), file, file.layout.pages)
        assert writer.holds(key("a"))
        direct = torch.zeros(POOL_PAGES, PAGE_ELEMENTS)
        DirectWriter(direct).write(key("a"), file, pages_of(file), None)
    writer.write(key("a"), file, pages_of(file), writer.fence())
    assert unpacked(file, pool, pages_of(file)).keys() == set(PATHS)
    load = writer.load()
    assert (load.hits, load.misses) == (0, 1), "the load that it was kept for had missed"


def test_what_is_too_large_for_the_tier_is_not_kept_in_parts() -> None:
    writer, _, _ = staged(2)
    with adapter_file(random_tensors(RANKS, torch.float32)) as file:
        assert file.layout.pages > 2
        writer.keep(key("a"), file, file.layout.pages)
    assert not writer.holds(key("a"))


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=60))
def test_one_tenant_cannot_push_out_more_of_the_others_than_its_share(
    turns: list[tuple[str, bool]],
) -> None:
    """A tenant with two adapters in a tier of eight keeps them, whatever another tenant loads."""
    tier = HostTier(8, 1)

    def use(tenant: str, name: str) -> None:
        with tier.borrow(((TenantNamespace(tenant), Digest(name)), 0), 1) as image:
            image.is_packed = True

    for name in "xy":
        use("modest", name)
    for name, is_large in turns:
        use("greedy", name + ("+" if is_large else ""))
    for name in "xy":
        assert tier.holds((TenantNamespace("modest"), Digest(name)))
    assert tier.load().bytes <= 8


@pytest.mark.parametrize("host_pages", [0, 7])
def test_a_pool_in_host_memory_has_the_tier_it_is_given(host_pages: int) -> None:
    pool = torch.zeros(POOL_PAGES, PAGE_ELEMENTS)
    writer = page_writer(pool, host_pages * PAGE_ELEMENTS * 4)
    load = writer.load()
    assert (0 if load is None else load.budget_bytes) == host_pages * PAGE_ELEMENTS * 4
    with adapter_file(random_tensors(RANKS, torch.float32)) as file:
        for first in (0, 5):
            writer.write(key("a"), file, pages_of(file, first), writer.fence())
            assert holds(pool, pages_of(file, first), file)
