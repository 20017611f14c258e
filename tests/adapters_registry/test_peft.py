from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

from loraplex.adapters_registry.peft import adapter_digest, spec_from_files
from loraplex.adapters_registry.rejection import AdapterRejected, ReasonCode, RejectionReason
from loraplex.adapters_registry.safetensors_guard import read_header
from loraplex.engine.protocol.adapter import AdapterSpec, TensorRef
from loraplex.engine.protocol.identity import digest_of_bytes, digest_of_file
from tests.adapters_registry.samples import (
    FIXTURE_NAMES,
    FIXTURES,
    SMOLLM2,
    TINY,
    Sample,
    key,
    sample,
)

Q0 = "model.layers.0.self_attn.q_proj"
O0 = "model.layers.0.self_attn.o_proj"
V1 = "model.layers.1.self_attn.v_proj"


def spec_of(adapter: Sample, folder: Path) -> AdapterSpec:
    return spec_from_files(*adapter.write(folder), TINY)


def reasons_of(adapter: Sample, folder: Path) -> tuple[RejectionReason, ...]:
    with pytest.raises(AdapterRejected) as rejected:
        spec_of(adapter, folder)
    return rejected.value.reasons


@pytest.mark.parametrize("name", FIXTURE_NAMES)
def test_a_fixture_resolves_with_the_digests_of_its_files(name: str) -> None:
    config = (FIXTURES / name / "adapter_config.json").read_bytes()
    weights = FIXTURES / name / "adapter_model.safetensors"
    spec = spec_from_files(config, weights, SMOLLM2)
    assert spec.weights_digest == digest_of_file(weights)
    assert spec.weights_bytes == weights.stat().st_size
    assert spec.base_digest == SMOLLM2.base_digest
    assert spec.digest == adapter_digest(
        SMOLLM2.base_digest, digest_of_bytes(config), spec.weights_digest
    )
    assert len(spec.modules) * 2 == len(read_header(weights).tensors)


def test_patterns_give_each_module_its_own_rank_and_scale() -> None:
    config = (FIXTURES / "bullets" / "adapter_config.json").read_bytes()
    spec = spec_from_files(config, FIXTURES / "bullets" / "adapter_model.safetensors", SMOLLM2)
    found = {(module.linear, module.rank, module.scale) for module in spec.modules}
    assert found == {
        ("q_proj", 2, 8.0),
        ("k_proj", 2, 8.0),
        ("v_proj", 8, 2.0),
        ("o_proj", 8, 2.0),
        ("gate_proj", 8, 2.0),
        ("up_proj", 8, 2.0),
        ("down_proj", 12, 2.0),
    }
    assert spec.max_rank == 12


def test_rslora_divides_by_the_root_of_the_rank() -> None:
    config = (FIXTURES / "json" / "adapter_config.json").read_bytes()
    spec = spec_from_files(config, FIXTURES / "json" / "adapter_model.safetensors", SMOLLM2)
    assert {module.scale for module in spec.modules} == {16 / 4}


def test_offsets_lead_to_the_tensors_own_bytes(tmp_path: Path) -> None:
    adapter = sample()
    spec = spec_of(adapter, tmp_path)
    data = (tmp_path / "adapter_model.safetensors").read_bytes()

    def at(ref: TensorRef) -> NDArray[np.float32]:
        return np.frombuffer(data[ref.start : ref.end], np.float32).reshape(ref.shape)

    for module in spec.modules:
        assert np.array_equal(at(module.a), adapter.tensors[key(module.path, "A")])
        assert np.array_equal(at(module.b), adapter.tensors[key(module.path, "B")])


def test_modules_come_in_the_bases_order(tmp_path: Path) -> None:
    paths = [module.path for module in spec_of(sample(), tmp_path).modules]
    assert paths == [module.path for module in TINY.modules if module.path in paths]


def test_another_config_makes_another_adapter_of_the_same_weights(tmp_path: Path) -> None:
    adapter = sample()
    first = spec_of(adapter, tmp_path)
    adapter.config["lora_alpha"] = 9
    second = spec_of(adapter, tmp_path)
    assert first.weights_digest == second.weights_digest
    assert first.digest != second.digest


@pytest.mark.parametrize("fan_in_fan_out", [True, False])
def test_fan_in_fan_out_changes_nothing_for_linears_as_in_peft(
    tmp_path: Path, fan_in_fan_out: bool
) -> None:
    adapter = sample()
    plain = spec_of(adapter, tmp_path).modules
    adapter.config["fan_in_fan_out"] = fan_in_fan_out
    assert spec_of(adapter, tmp_path).modules == plain


def drop(name: str) -> Callable[[Sample], object]:
    return lambda adapter: adapter.tensors.pop(name)


def add(name: str, *shape: int) -> Callable[[Sample], object]:
    return lambda adapter: adapter.tensors.update({name: np.ones(shape, np.float32)})


def configure(**fields: object) -> Callable[[Sample], object]:
    return lambda adapter: adapter.config.update(fields)


@pytest.mark.parametrize(
    ("spoil", "code", "words"),
    [
        (drop(key(Q0, "B")), ReasonCode.PAIR_INCOMPLETE, ["lora_B is missing", Q0]),
        (drop(key(Q0, "A")), ReasonCode.PAIR_INCOMPLETE, ["lora_A is missing", Q0]),
        (
            add(key(Q0, "A"), 4, 2048),
            ReasonCode.WRONG_BASE_SHAPE,
            [Q0, "lora_A", "[4, 2048]", "[4, 32]", "tiny-llama", "another base"],
        ),
        (
            add(key(V1, "B"), 2048, 4),
            ReasonCode.WRONG_BASE_SHAPE,
            [V1, "lora_B", "[2048, 4]", "[16, 4]"],
        ),
        (add(key(V1, "B"), 16), ReasonCode.WRONG_BASE_SHAPE, ["[16]", "[16, 4]"]),
        (add(key(V1, "B"), 16, 3), ReasonCode.RANK_MISMATCH, [V1, "rank 3", "says 4"]),
        (add(key(V1, "A"), 5, 32), ReasonCode.RANK_MISMATCH, [V1, "rank 5", "says 4"]),
        (configure(rank_pattern={"q_proj": 2}), ReasonCode.RANK_MISMATCH, ["rank 4", "says 2"]),
        (
            add("base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight", 4, 32),
            ReasonCode.TENSOR_UNMAPPED,
            ["layers.2.self_attn.q_proj.lora_A.weight"],
        ),
        (add("something", 1), ReasonCode.TENSOR_UNMAPPED, ["something"]),
        (
            add(f"base_model.model.{Q0}.lora_A.default.weight", 4, 32),
            ReasonCode.TENSOR_REPEATED,
            ["lora_A.weight", "lora_A.default.weight"],
        ),
        (
            add(f"base_model.model.{Q0}.lora_A.one.weight", 4, 32),
            ReasonCode.TENSOR_REPEATED,
            [f"{Q0}.lora_A.one.weight"],
        ),
        (
            add(f"base_model.model.{O0}.lora_A.default.weight", 4, 32),
            ReasonCode.TENSOR_REPEATED,
            ["several adapters", "default"],
        ),
        (
            add(f"base_model.{Q0}.lora_A.weight", 4, 32),
            ReasonCode.TENSOR_UNMAPPED,
            [f"base_model.{Q0}"],
        ),
        (add(f"{Q0}.lora_a", 32, 4), ReasonCode.NOT_SERVED, ["MLX", f"{Q0}.lora_a"]),
        (add(f"{Q0}.lora_down.weight", 32, 4), ReasonCode.NOT_SERVED, ["lora_down"]),
        (
            add("base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta", 2, 32),
            ReasonCode.NOT_SERVED,
            ["trainable_token_indices"],
        ),
        (
            add(f"base_model.model.{Q0}.lora_magnitude_vector", 32),
            ReasonCode.TARGETS_DISAGREE,
            ["use_dora", "lora_magnitude_vector", Q0],
        ),
        (configure(use_dora=True), ReasonCode.PAIR_INCOMPLETE, ["use_dora", Q0]),
        (
            add(f"base_model.model.{Q0}.lora_B.bias", 32),
            ReasonCode.TARGETS_DISAGREE,
            ["lora_bias", "lora_B.bias", Q0],
        ),
        (configure(lora_bias=True), ReasonCode.PAIR_INCOMPLETE, ["lora_bias", Q0]),
        (
            add(f"base_model.model.{Q0}.base_layer.bias", 32),
            ReasonCode.TARGETS_DISAGREE,
            ["tiny-llama does not have", Q0],
        ),
        (
            add("base_model.model.model.embed_tokens.lora_embedding_A", 4, 64),
            ReasonCode.PAIR_INCOMPLETE,
            ["lora_B is missing", "model.embed_tokens"],
        ),
        (
            add("base_model.model.model.embed_tokens.lora_A.weight", 4, 64),
            ReasonCode.TENSOR_UNMAPPED,
            ["embed_tokens.lora_A.weight"],
        ),
        (
            add("base_model.model.lm_head.lora_A.weight", 4, 32),
            ReasonCode.TARGETS_DISAGREE,
            ["lm_head", "does not target"],
        ),
        (
            add("base_model.model.lm_head.weight", 64, 32),
            ReasonCode.NOT_SERVED,
            ["lm_head.weight", "differs from the base's own"],
        ),
        (
            add("base_model.model.model.embed_tokens.base_layer.weight", 65, 32),
            ReasonCode.NOT_SERVED,
            ["embed_tokens", "[65, 32]", "resized"],
        ),
        (
            add("base_model.model.model.norm.weight", 32),
            ReasonCode.NOT_SERVED,
            ["whole weights", "model.norm.weight"],
        ),
        (
            add(f"base_model.model.{Q0}.base_layer.weight", 32, 32),
            ReasonCode.NOT_SERVED,
            ["whole weights", f"{Q0}.base_layer.weight"],
        ),
        (
            configure(target_modules=["q_proj"]),
            ReasonCode.TARGETS_DISAGREE,
            ["v_proj", "does not target"],
        ),
        (
            configure(target_modules=["q_proj", "v_proj", "up_proj"]),
            ReasonCode.TARGETS_DISAGREE,
            ["up_proj", "no tensors"],
        ),
        (
            configure(layers_to_transform=[0]),
            ReasonCode.TARGETS_DISAGREE,
            ["layers.1", "does not target"],
        ),
        (
            configure(exclude_modules=["v_proj"]),
            ReasonCode.TARGETS_DISAGREE,
            ["v_proj", "does not target"],
        ),
    ],
)
def test_what_would_be_half_applied_is_rejected_by_name(
    tmp_path: Path, spoil: Callable[[Sample], object], code: ReasonCode, words: list[str]
) -> None:
    adapter = sample()
    spoil(adapter)
    reasons = reasons_of(adapter, tmp_path)
    told = [reason.message for reason in reasons if reason.code == code]
    assert any(all(word in message for word in words) for message in told), reasons


RENAMINGS: dict[str, Callable[[str], str]] = {
    "torch.compile": lambda name: name.replace("base_model.model.", "base_model.model._orig_mod."),
    "torch.compile of all": lambda name: f"_orig_mod.{name}",
    "torch.compile of layers": lambda name: name.replace("layers.0.", "layers.0._orig_mod."),
    "data parallel": lambda name: f"module.{name}",
    "FSDP": lambda name: name.replace("layers.0.", "layers.0._fsdp_wrapped_module."),
    "checkpointing": lambda name: name.replace(".mlp.", "._checkpoint_wrapped_module.mlp."),
    "wrapped by PEFT twice": lambda name: f"base_model.model.{name}",
    "names of the inner model": lambda name: name.removeprefix("base_model.model."),
    "an adapter's name": lambda name: name.replace(".weight", ".default.weight"),
    "all at once": lambda name: "module._orig_mod." + name.replace(".weight", ".my-lora_2.weight"),
}


@pytest.mark.parametrize("trainer", RENAMINGS)
def test_names_that_trainers_write_are_read_by_declared_rules(tmp_path: Path, trainer: str) -> None:
    adapter = sample(linears=("q_proj", "down_proj"))
    modules = spec_of(adapter, tmp_path).modules
    renamed = {RENAMINGS[trainer](name): tensor for name, tensor in adapter.tensors.items()}
    found = spec_of(Sample(adapter.config, renamed), tmp_path).modules
    assert [(m.path, m.rank, m.scale) for m in found] == [
        (m.path, m.rank, m.scale) for m in modules
    ]
    assert {ref.name for m in found for ref in (m.a, m.b)} == renamed.keys()


def test_nan_is_found_in_every_dtype(tmp_path: Path) -> None:
    for dtype in (np.float32, np.float16):
        adapter = sample()
        spoilt = np.ones((4, 32), dtype)
        spoilt[3, 31] = np.nan
        adapter.tensors[key(Q0, "A")] = spoilt
        (reason,) = reasons_of(adapter, tmp_path)
        assert reason.code == ReasonCode.WEIGHTS_NOT_FINITE
        assert "NaN" in reason.message
        assert key(Q0, "A") in reason.message


def test_both_files_reasons_are_told_at_once(tmp_path: Path) -> None:
    adapter = sample()
    adapter.config.update(r=0, use_qalora=True)
    config, weights = adapter.write(tmp_path)
    weights.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(AdapterRejected) as rejected:
        spec_from_files(config, weights, TINY)
    fields = {reason.field for reason in rejected.value.reasons}
    assert fields == {"r", "use_qalora", "adapter_model"}


def test_an_adapter_of_another_base_is_told_in_few_reasons(tmp_path: Path) -> None:
    config = (FIXTURES / "pirate" / "adapter_config.json").read_bytes()
    with pytest.raises(AdapterRejected) as rejected:
        spec_from_files(config, FIXTURES / "pirate" / "adapter_model.safetensors", TINY)
    reasons = rejected.value.reasons
    assert len(reasons) < 10
    assert any("tiny-llama" in reason.message for reason in reasons)


def test_the_files_layout_does_not_matter_to_the_modules(tmp_path: Path) -> None:
    adapter = sample()
    _, weights = adapter.write(tmp_path)
    assert set(load_file(weights)) == set(adapter.tensors)
    backwards = Sample(adapter.config, dict(reversed(adapter.tensors.items())))
    names = [module.path for module in spec_of(backwards, tmp_path).modules]
    assert names == [module.path for module in spec_of(adapter, tmp_path).modules]
