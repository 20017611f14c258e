"""Adapters that share a small pool: never one in another's place, each in bounded time."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from loraplex.engine.adapter_source import AdapterSource
from loraplex.engine.core import EngineCore
from loraplex.engine.memory.residency import key_of
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import AdapterUnavailable
from loraplex.engine.protocol.generation import FinishReason, Priority
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.sampling import SamplingParams
from loraplex.engine.scheduler.adapter_line import PATIENCE_STEPS
from tests.engine.driving import Answer, greedy, request, run
from tests.engine.fake_device import (
    FakeAdapter,
    expected_tokens,
    make_fake_adapter,
    make_fake_engine,
)
from tests.engine.gated import GatedSource
from tests.engine.models.test_architectures import PROMPT, logprobs_of
from tests.engine.tiny import (
    VOCABULARY,
    describe,
    make_adapter,
    make_engine,
    make_model,
    oracle_logits,
    peft_oracle,
)

# PEFT asks Transformers by a name that Transformers has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3]


@dataclass
class Bench:
    """An engine on a fake device whose loads end before each step, unless told otherwise."""

    engine: EngineCore
    answers: dict[str, Answer] = field(default_factory=dict)
    wanted: dict[str, list[int]] = field(default_factory=dict)
    steps: int = 0

    def add(
        self, name: str, adapter: FakeAdapter | None, tokens: int, prompt: int = 3, **changes: Any
    ) -> None:
        ref = None if adapter is None else adapter.ref
        one = request(name, TOKENS[:prompt], greedy(tokens), ref)
        self.engine.add(msgspec.structs.replace(one, use_prefix_cache=False, **changes))
        fingerprint = 0 if adapter is None else adapter.fingerprint
        self.wanted[name] = expected_tokens(TOKENS[:prompt], fingerprint, tokens)

    def step(self, *, loads: bool = True) -> None:
        while loads and self.engine._residency.loads_in_flight > self._unread:
            self.engine._loader.run_one()
            self._unread += 1
        self._unread = 0
        for output in self.engine.step():
            self.answers.setdefault(output.request_id, Answer()).take(output)
        self.engine.check_integrity()
        self.steps += 1

    _unread: int = 0

    def finish(self) -> None:
        while self.engine.has_work:
            self.step()
        for name, answer in self.answers.items():
            assert answer.token_ids == self.wanted[name], name
            assert answer.finish_reason is FinishReason.LENGTH
        assert self.answers.keys() == self.wanted.keys()
        assert self.engine.load().stalls == 0

    def has_started(self, name: str) -> bool:
        return name in self.answers


@pytest.fixture
def adapters(tmp_path: Path) -> list[FakeAdapter]:
    """Each fills two pages."""
    return [make_fake_adapter(tmp_path, seed, rank=2) for seed in range(8)]


def bench(pages: int, **changes: Any) -> Bench:
    return Bench(make_fake_engine(pages, **changes)[0])


def test_two_adapters_decode_while_two_others_load_into_a_budget_of_two(
    adapters: list[FakeAdapter],
) -> None:
    # Two adapters of two pages, and five pages for each of two sequences of 18 tokens.
    one = bench(4 + 10)
    for number in (0, 1):
        one.add(f"first {number}", adapters[number], tokens=15)
    for _ in range(3):
        one.step()
    for number in (2, 3):
        one.add(f"then {number}", adapters[number], tokens=15)
    one.finish()


@pytest.mark.parametrize("priority", Priority)
def test_room_for_one_adapter_is_given_to_another_in_bounded_time(
    adapters: list[FakeAdapter], priority: Priority
) -> None:
    """The queue is A, B, A, A, A, … with one more A each step, and A is always in use."""
    one = bench(2 + 6)
    one.add("A", adapters[0], tokens=4)
    one.step()
    one.add("B", adapters[1], tokens=2, priority=priority)
    while not one.has_started("B"):
        one.add(f"A{one.steps}", adapters[0], tokens=4)
        one.step()
        assert one.steps < 2 * PATIENCE_STEPS
    one.finish()


def test_while_an_adapter_is_waited_for_whoever_leaves_room_goes_on(tmp_path: Path) -> None:
    """Only the adapter that has to leave drains; base requests start in every step."""
    leaves, comes = (make_fake_adapter(tmp_path, seed, rank=8) for seed in range(2))
    one = bench(8 + 7)
    one.add("leaves", leaves, tokens=4)
    one.step()
    one.add("comes", comes, tokens=2)
    while not one.has_started("comes"):
        one.add(f"leaves {one.steps}", leaves, tokens=4)
        one.add(f"base {one.steps}", None, tokens=1, priority=Priority.INTERACTIVE)
        one.step()
        assert one.has_started(f"base {one.steps - 1}")
        assert one.steps < 2 * PATIENCE_STEPS
    assert one.steps > PATIENCE_STEPS, "until then others went first"
    one.finish()


def test_one_adapter_more_than_there_is_room_for_is_deferred(adapters: list[FakeAdapter]) -> None:
    """Among them a prompt in chunks and a base request; nothing is asserted, all are served."""
    for count in range(2, 6):
        one = bench(2 * count + 6, max_running_requests=8)
        for number in range(count + 1):
            one.add(f"{number}", adapters[number], tokens=3)
        one.add("chunked", adapters[0], tokens=2, prompt=18)
        one.add("base", None, tokens=3)
        one.finish()
        assert one.engine.load().adapter_loads >= count + 1


def test_an_adapter_that_comes_back_is_the_same(adapters: list[FakeAdapter]) -> None:
    one = bench(2 + 3)
    for turn in range(3):
        for number in range(3):
            one.add(f"{turn} {number}", adapters[number], tokens=4)
            one.finish()
    assert one.engine.load().adapter_loads == 9


def test_a_loaded_adapter_serves_before_it_may_leave_again(adapters: list[FakeAdapter]) -> None:
    """All wait for all: with room for one, each load serves somebody."""
    one = bench(2 + 5, max_running_requests=2)
    for number in range(24):
        one.add(f"{number}", adapters[number % 8], tokens=3)
    one.finish()
    assert one.engine.load().adapter_loads <= 24


def test_a_failed_load_ends_its_own_requests_and_others_of_the_tenant_go_on(
    adapters: list[FakeAdapter],
) -> None:
    class Source(AdapterSource):
        def fetch(self, ref: AdapterRef) -> Path:
            if ref.url == adapters[0].ref.url:
                raise AdapterUnavailable("The store is gone.")
            return Path(ref.url)

    one = bench(20, adapters=Source())
    one.add("fails", adapters[0], tokens=3)
    one.add("fails too", adapters[0], tokens=3)
    one.add("other", adapters[1], tokens=3)
    one.add("base", None, tokens=3)
    while one.engine.has_work:
        one.step()
    for name in ("fails", "fails too"):
        assert one.answers[name].finish_reason is FinishReason.ERROR
    for name in ("other", "base"):
        assert one.answers[name].token_ids == one.wanted[name]
    load = one.engine.load()
    assert (load.free_pages, load.adapter_pages, load.resident_adapters) == (18, 2, 1)


def test_a_cancelled_request_hands_its_place_for_the_load_to_the_next(
    adapters: list[FakeAdapter],
) -> None:
    """The one whose turn it would be is gone before the load begins."""
    one = bench(2 + 4)
    one.add("holds", adapters[0], tokens=8)
    one.step()
    one.step()
    one.add("gone", adapters[1], tokens=2)
    one.add("stays", adapters[1], tokens=2)
    one.step()
    one.engine.cancel("gone")
    del one.wanted["gone"]
    one.step()
    assert one.answers.pop("gone").finish_reason is FinishReason.CANCELLED
    one.finish()


def test_a_load_is_charged_to_the_tenant_whose_request_wanted_it(
    adapters: list[FakeAdapter],
) -> None:
    one = bench(20)
    one.add("loads", adapters[0], tokens=1, namespace=TenantNamespace("loads"))
    one.add("plain", None, tokens=1, namespace=TenantNamespace("plain"))
    one.finish()
    accounts = one.engine._scheduler.accounts._by_tenant
    # Three tokens in and one out, and two pages of four tokens for the adapter.
    assert accounts[TenantNamespace("plain")].service == 3 + 2
    assert accounts[TenantNamespace("loads")].service == 3 + 2 + 8


@pytest.fixture(scope="module")
def deep_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("deep"), "llama", num_hidden_layers=12)


SAMPLING = SamplingParams(max_tokens=4, temperature=0.0, logprobs=VOCABULARY)


def test_ranks_and_layers_keep_their_own_scale_beside_others(
    deep_base: Path, tmp_path: Path
) -> None:
    """In one batch: ranks 4 and 24, and an adapter that leaves the layers from 10 on alone."""
    table = describe(deep_base)
    linears = ["q_proj", "v_proj", "o_proj", "down_proj"]
    shapes: dict[str, dict[str, Any]] = {
        "four": {"r": 4, "lora_alpha": 8},
        "twenty-four": {"r": 24, "lora_alpha": 8},
        "lower": {"r": 8, "lora_alpha": 16, "layers_to_transform": list(range(10))},
    }
    refs = {
        name: make_adapter(tmp_path / name, deep_base, table, seed, target_modules=linears, **shape)
        for seed, (name, shape) in enumerate(shapes.items())
    }
    engine = make_engine(deep_base, table, pool_bytes=2**22, max_step_tokens=64)
    answers = run(engine, *(request(name, PROMPT[:9], SAMPLING, refs[name]) for name in refs))
    lower = next(
        e for e in engine._residency.entries.values() if e.key[1] == refs["lower"].spec.digest
    )
    assert lower.tables.ranks.view(12, 7).any(1).tolist() == [True] * 10 + [False] * 2
    engine.close()
    for name, answer in answers.items():
        model = peft_oracle(deep_base, tmp_path / name)
        wanted = oracle_logits(model, PROMPT[:9], answer.token_ids).log_softmax(-1)
        torch.testing.assert_close(logprobs_of(answer), wanted, atol=5e-4, rtol=0)


def test_fetches_that_hang_hold_neither_pages_nor_turns_and_end_alone(tmp_path: Path) -> None:
    """More of one tenant's adapters hang than ever load at once; another tenant's goes by."""
    source = GatedSource()
    one = bench(2 + 12, adapters=source, loader_threads=2)
    hanging = [make_fake_adapter(tmp_path, number, 2, "hanging") for number in range(10)]
    for number, adapter in enumerate(hanging):
        one.add(f"hangs {number}", adapter, tokens=2)
    one.step(loads=False)
    source.wait_for(6)
    one.add("other", make_fake_adapter(tmp_path, 99, 2, "other"), tokens=2)
    one.step(loads=False)
    source.wait_for(7)
    assert one.engine.load().adapter_pages == 0
    source.let_through(-1)
    while "other" not in one.answers or one.answers["other"].finish_reason is None:
        assert one.engine.wait_for_work(30)
        one.step(loads=False)
    assert one.engine.load().stalls == 0
    assert one.answers.keys() == {"other"}
    for _ in hanging:
        source.fail()
    while one.engine.has_work:
        assert one.engine.wait_for_work(30)
        one.step(loads=False)
    for number in range(10):
        assert one.answers[f"hangs {number}"].finish_reason is FinishReason.ERROR


def test_an_adapter_that_was_foretold_is_loaded_without_being_fetched_again(
    tmp_path: Path,
) -> None:
    source = GatedSource()
    one = bench(20, adapters=source, loader_threads=2)
    adapter = make_fake_adapter(tmp_path, 5, 2)
    one.engine.foretell(adapter.ref)
    source.let_through()
    while not one.engine._loader._pages.holds(key_of(adapter.ref)):
        threading.Event().wait(0.01)
    one.add("a", adapter, tokens=2)
    while one.engine.has_work:
        assert one.engine.wait_for_work(30)
        one.step(loads=False)
    assert one.answers["a"].token_ids == one.wanted["a"]
    assert source.waiting == 0
