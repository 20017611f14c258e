import json

import pytest

from loraplex.adapters_registry.peft_config import MAX_CONFIG_BYTES, AdapterConfig, parse_config
from loraplex.adapters_registry.rejection import AdapterRejected, ReasonCode
from tests.adapters_registry.samples import FIXTURE_NAMES, FIXTURES

LEAST = {"peft_type": "LORA", "target_modules": ["q_proj"]}


def parse(**fields: object) -> AdapterConfig:
    return parse_config(json.dumps(LEAST | fields).encode())


def refusal(data: bytes) -> tuple[ReasonCode, str | None, str]:
    with pytest.raises(AdapterRejected) as rejected:
        parse_config(data)
    (reason,) = rejected.value.reasons
    return reason.code, reason.field, reason.message


@pytest.mark.parametrize("name", FIXTURE_NAMES)
def test_what_peft_writes_is_understood(name: str) -> None:
    assert parse_config((FIXTURES / name / "adapter_config.json").read_bytes()).rank in (4, 8, 16)


def test_pefts_defaults_fill_in_what_is_absent() -> None:
    config = parse()
    assert (config.rank, config.alpha, config.use_rslora) == (8, 8.0, False)
    assert config.rank_pattern == config.alpha_pattern == {}
    assert not config.layers_to_transform
    assert not config.layers_pattern
    assert not config.exclude_modules


def test_fields_nobody_chose_are_harmless_even_unknown_ones() -> None:
    empty: list[object] = [None, False, "", [], {}]
    unknown = {f"from_the_future_{i}": value for i, value in enumerate(empty)}
    known = dict.fromkeys(["use_dora", "modules_to_save", "megatron_config", "lora_bias"])
    assert parse(**unknown, **known) == parse()


def test_known_fields_without_effect_on_inference_are_harmless() -> None:
    harmless = {
        "lora_dropout": 0.1,
        "peft_version": "0.21.2",
        "task_type": "CAUSAL_LM",
        "inference_mode": True,
        "base_model_name_or_path": "somebody/model",
        "revision": "main",
        "megatron_core": "megatron.core",
        "qalora_group_size": 16,
        "auto_mapping": {"base_model_class": "LlamaForCausalLM", "parent_library": "x"},
        "bias": "none",
        "eva_config": {"rho": 2.0},
        "loftq_config": {"loftq_bits": 4},
    }
    assert parse(**harmless) == parse()


@pytest.mark.parametrize("init", [True, False, None, "gaussian", "eva", "orthogonal", "mica"])
def test_beginnings_that_leave_the_base_alone_are_served(init: object) -> None:
    assert parse(init_lora_weights=init) == parse()


@pytest.mark.parametrize(
    "init", ["pissa", "pissa_niter_16", "olora", "OLoRA", "corda", "loftq", "lora_ga"]
)
def test_beginnings_that_change_the_base_are_refused(init: str) -> None:
    code, field, message = refusal(json.dumps(LEAST | {"init_lora_weights": init}).encode())
    assert (code, field) == (ReasonCode.NOT_SERVED, "init_lora_weights")
    assert init in message
    assert "changes the base" in message


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("modules_to_save", ["lm_head"], ReasonCode.NOT_SERVED),
        ("alora_invocation_tokens", [1, 2], ReasonCode.NOT_SERVED),
        ("layer_replication", [[0, 4], [2, 5]], ReasonCode.NOT_SERVED),
        ("target_parameters", ["experts.gate_up_proj"], ReasonCode.NOT_SERVED),
        ("trainable_token_indices", [5], ReasonCode.NOT_SERVED),
        ("use_qalora", True, ReasonCode.NOT_SERVED),
        ("use_bdlora", {"nblocks": 2}, ReasonCode.NOT_SERVED),
        ("arrow_config", {"top_k": 3}, ReasonCode.NOT_SERVED),
        ("kasa_config", {"x": 1}, ReasonCode.NOT_SERVED),
        ("monteclora_config", {"x": 1}, ReasonCode.NOT_SERVED),
        ("velora_config", {"x": 1}, ReasonCode.NOT_SERVED),
        ("megatron_config", {"x": 1}, ReasonCode.NOT_SERVED),
        ("peft_type", "IA3", ReasonCode.NOT_SERVED),
        ("peft_type", None, ReasonCode.NOT_SERVED),
        ("peft_type", ["LORA"], ReasonCode.NOT_SERVED),
        ("task_type", "SEQ_CLS", ReasonCode.NOT_SERVED),
        ("task_type", 7, ReasonCode.NOT_SERVED),
        ("init_lora_weights", "brand-new", ReasonCode.NOT_SERVED),
        ("init_lora_weights", 3, ReasonCode.NOT_SERVED),
        ("quantum_rank", 7, ReasonCode.CONFIG_FIELD_UNKNOWN),
        ("quantum_rank", 0, ReasonCode.CONFIG_FIELD_UNKNOWN),
        ("quantum_rank", {"a": None}, ReasonCode.CONFIG_FIELD_UNKNOWN),
        ("r", 0, ReasonCode.CONFIG_FIELD_INVALID),
        ("r", -4, ReasonCode.CONFIG_FIELD_INVALID),
        ("r", True, ReasonCode.CONFIG_FIELD_INVALID),
        ("r", 8.0, ReasonCode.CONFIG_FIELD_INVALID),
        ("r", "8", ReasonCode.CONFIG_FIELD_INVALID),
        ("r", 10**30, ReasonCode.CONFIG_FIELD_INVALID),
        ("lora_alpha", 0, ReasonCode.CONFIG_FIELD_INVALID),
        ("lora_alpha", True, ReasonCode.CONFIG_FIELD_INVALID),
        ("lora_alpha", 1e300, ReasonCode.CONFIG_FIELD_INVALID),
        ("lora_alpha", [16], ReasonCode.CONFIG_FIELD_INVALID),
        ("use_rslora", 1, ReasonCode.CONFIG_FIELD_INVALID),
        ("use_dora", "yes", ReasonCode.CONFIG_FIELD_INVALID),
        ("bias", "some", ReasonCode.CONFIG_FIELD_INVALID),
        ("bias", ["all"], ReasonCode.CONFIG_FIELD_INVALID),
        ("lora_bias", 1, ReasonCode.CONFIG_FIELD_INVALID),
        ("ensure_weight_tying", 1, ReasonCode.CONFIG_FIELD_INVALID),
        ("use_qa_lora", True, ReasonCode.NOT_SERVED),
        ("use_merged_linear", True, ReasonCode.NOT_SERVED),
        ("enable_lora", [True], ReasonCode.NOT_SERVED),
        ("rank_pattern", {"q_proj": 0}, ReasonCode.CONFIG_FIELD_INVALID),
        ("rank_pattern", {"q_proj": True}, ReasonCode.CONFIG_FIELD_INVALID),
        ("rank_pattern", ["q_proj"], ReasonCode.CONFIG_FIELD_INVALID),
        ("rank_pattern", {"(": 4}, ReasonCode.CONFIG_FIELD_INVALID),
        ("rank_pattern", {"a" * 1025: 4}, ReasonCode.CONFIG_FIELD_INVALID),
        ("alpha_pattern", {"q_proj": "16"}, ReasonCode.CONFIG_FIELD_INVALID),
        ("target_modules", None, ReasonCode.CONFIG_FIELD_INVALID),
        ("target_modules", [], ReasonCode.CONFIG_FIELD_INVALID),
        ("target_modules", [1], ReasonCode.CONFIG_FIELD_INVALID),
        ("target_modules", {"q_proj": 1}, ReasonCode.CONFIG_FIELD_INVALID),
        ("target_modules", "(", ReasonCode.CONFIG_FIELD_INVALID),
        ("exclude_modules", 5, ReasonCode.CONFIG_FIELD_INVALID),
        ("layers_to_transform", [-1], ReasonCode.CONFIG_FIELD_INVALID),
        ("layers_to_transform", [True], ReasonCode.CONFIG_FIELD_INVALID),
        ("layers_to_transform", "all", ReasonCode.CONFIG_FIELD_INVALID),
        ("layers_pattern", "layers", ReasonCode.CONFIG_FIELD_INVALID),
    ],
)
def test_a_field_that_is_not_served_is_refused_by_its_name(
    field: str, value: object, code: ReasonCode
) -> None:
    found_code, found_field, message = refusal(json.dumps(LEAST | {field: value}).encode())
    assert (found_code, found_field) == (code, field)
    assert field in message or str(value) in message or "lm_head" in message


def test_dora_and_lora_bias_exclude_each_other_as_in_peft() -> None:
    fields = {"use_dora": True, "lora_bias": True}
    _, field, message = refusal(json.dumps(LEAST | fields).encode())
    assert field == "lora_bias"
    assert "PEFT" in message


def test_what_other_trainers_add_to_a_config_changes_nothing() -> None:
    swift = {"swift_type": "LORA", "lora_dtype": "float32", "lorap_emb_lr": 1e-6}
    swift |= {"lorap_lr_ratio": 16.0, "use_qa_lora": False, "enable_lora": None}
    unsloth = {"auto_mapping": {"base_model_class": "LlamaForCausalLM", "unsloth_fixed": True}}
    assert parse(**swift, **unsloth) == parse()


def test_layers_cannot_be_chosen_beside_a_pattern_as_in_peft() -> None:
    fields = {"target_modules": ".*q_proj", "layers_to_transform": [0]}
    _, field, message = refusal(json.dumps(LEAST | fields).encode())
    assert field == "layers_to_transform"
    assert "PEFT" in message


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"[]", "list"),
        (b"null", "null"),
        (b"7", "number"),
        (b'"LORA"', "string"),
        (b"{", "JSON"),
        (b"\xff", "UTF-8"),
        (b"{" + b" " * MAX_CONFIG_BYTES + b"}", str(MAX_CONFIG_BYTES)),
        (b'{"a":' + b"[" * 50 + b"]" * 50 + b"}", "deeper"),
        (b'{"r": 4, "r": 8}', "repeats the key 'r'"),
        (b'{"r": NaN}', "NaN"),
    ],
)
def test_what_is_no_object_is_refused(data: bytes, words: str) -> None:
    code, field, message = refusal(data)
    assert (code, field) == (ReasonCode.CONFIG_UNREADABLE, "adapter_config")
    assert message.startswith("adapter_config.json")
    assert words in message


def test_all_faults_of_a_config_are_told_together() -> None:
    fields = {"r": 0, "use_qalora": True, "quantum_rank": 1, "bias": "some"}
    with pytest.raises(AdapterRejected) as rejected:
        parse(**fields)
    assert {reason.field for reason in rejected.value.reasons} == set(fields)


def test_a_long_or_unprintable_value_is_shown_shortened() -> None:
    _, _, message = refusal(json.dumps(LEAST | {"quantum": "\x1b[2J" + "x" * 10_000}).encode())
    assert len(message) < 400
    assert message.isprintable()
