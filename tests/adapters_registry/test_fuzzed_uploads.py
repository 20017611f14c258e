"""Spoiled uploads of every kind: a verdict within limits; what is accepted runs in the engine."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from loraplex.adapters_registry.rejection import ReasonCode
from loraplex.adapters_registry.validation import ValidationLimits, validate_files
from loraplex.engine.core import EngineCore
from loraplex.engine.protocol.adapter import AdapterRef, AdapterSpec
from loraplex.engine.protocol.generation import FinishReason
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.module_table import ModuleTable
from tests.adapters_registry.mutations import Upload, mutated
from tests.engine.driving import greedy, request, run
from tests.engine.lora.options import ALL, EVERY, NO_COPIES, Option, Served, save
from tests.engine.tiny import describe, make_engine, make_model
from tests.soak import examples

pytestmark = [
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

SEEDS = {
    "linears": Option("", {"r": 3, "target_modules": ALL}),
    "all that can be adapted, with DoRA": Option(
        "", {"r": 2, "target_modules": EVERY, "use_dora": True}, NO_COPIES
    ),
    "biases": Option("", {"r": 2, "target_modules": ["q_proj"], "bias": "all", "lora_bias": True}),
    "the embedding with its copy": Option("", {"r": 2, "target_modules": ["embed_tokens"]}),
}
PROMPT = [5, 9, 17]
LIMITS = ValidationLimits(seconds=30, memory_bytes=512 * 1024 * 1024)


class Bench:
    """A base, an engine of it, good uploads for it, and what the base says unadapted.

    No dataclass: Hypothesis would print all of its fields when it tells of a failure.
    """

    def __init__(
        self, table: ModuleTable, engine: EngineCore, good: list[Upload], folder: Path
    ) -> None:
        self.table = table
        self.engine = engine
        self.good = good
        self.folder = folder
        self.answer = self.base_answer()

    def base_answer(self) -> list[int]:
        return run(self.engine, request("base", PROMPT, greedy(2)))["base"].token_ids

    def validate(self, upload: Upload) -> AdapterSpec | None:
        """The verdict of a process with limits; a refusal gives reasons in words."""
        config, weights = self.folder / "config", self.folder / "weights"
        config.write_bytes(upload.config)
        weights.write_bytes(upload.weights)
        begun_at = time.monotonic()
        verdict = validate_files(config, weights, self.table, LIMITS)
        assert time.monotonic() - begun_at < LIMITS.seconds
        assert (verdict.spec is None) == bool(verdict.reasons)
        for reason in verdict.reasons:
            assert reason.code is not ReasonCode.VALIDATION_LIMIT
            assert reason.message.endswith((".", "?"))
        return verdict.spec

    def serve(self, spec: AdapterSpec) -> None:
        """The engine loads what was accepted, answers with it, and is none the worse."""
        ref = AdapterRef(spec, TenantNamespace("fuzz"), str(self.folder / "weights"))
        answers = run(
            self.engine,
            request("adapted", PROMPT, greedy(2), ref),
            request("base", PROMPT, greedy(2)),
        )
        assert answers["adapted"].finish_reason is FinishReason.LENGTH, answers["adapted"].last
        assert answers["base"].token_ids == self.answer


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("fuzz")
    model = make_model(
        folder / "base", "llama", tie_word_embeddings=True, attention_bias=True, eos_token_id=None
    )
    base = Served(model, describe(model))
    good = []
    for seed, chosen in enumerate(SEEDS.values()):
        save(chosen, base, folder / str(seed), seed)
        files = ("adapter_config.json", "adapter_model.safetensors")
        good.append(Upload(*((folder / str(seed) / name).read_bytes() for name in files)))
    engine = make_engine(model, base.table)
    yield Bench(base.table, engine, good, folder)
    engine.close()


def test_the_good_uploads_are_good(bench: Bench) -> None:
    for upload in bench.good:
        spec = bench.validate(upload)
        assert spec is not None
        bench.serve(spec)


@settings(
    max_examples=examples(200, 20_000),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(data=st.data())
def test_no_spoiled_upload_is_accepted_and_fails_in_the_engine(
    bench: Bench, data: st.DataObject
) -> None:
    spec = bench.validate(data.draw(mutated(data.draw(st.sampled_from(bench.good)))))
    if spec is not None:
        bench.serve(spec)


class Broken(Exception):
    """A fault of the engine, for a test of the test."""


def test_a_fault_that_is_found_is_told_as_it_is(bench: Bench) -> None:
    """An error while Hypothesis reports would take the fault's place, as an inconsistency."""

    @settings(max_examples=1, database=None, phases=[Phase.generate])
    @given(data=st.data())
    def find(bench: Bench, data: st.DataObject) -> None:
        data.draw(mutated(data.draw(st.sampled_from(bench.good))))
        raise Broken

    with pytest.raises(Broken):
        find(bench)
