"""The fields of PEFT's LoraConfig: which are harmless, which are not served, what values may be."""

from typing import Any

from loraplex.adapters_registry.rejection import shortened

MAX_RANK = 1024
MAX_ALPHA = 2.0**20

SERVED_INITS = ("gaussian", "eva", "orthogonal", "mica")
"""How these begin does not touch the base, so A and B are the whole of the fine-tune."""

CONVERTIBLE_INITS = ("pissa", "olora", "corda", "lora_ga")
"""PEFT can save the difference to their beginning, which is plain LoRA on the stock base."""

QUANTISING_INITS = ("loftq",)
"""What they begin with makes up for what quantising takes from the base, which is served whole."""

IGNORED = frozenset(
    {
        "auto_mapping",  # says which Python class was wrapped; never imported here
        "base_model_name_or_path",  # free text; shapes are the test
        "revision",
        "peft_version",
        "inference_mode",
        "lora_dropout",  # of training only, like the configurations of initialisations below
        "loftq_config",
        "eva_config",
        "corda_config",
        "lora_ga_config",
        "qalora_group_size",  # means nothing without use_qalora
        "megatron_core",  # means nothing without megatron_config
        "fan_in_fan_out",  # PEFT resets it for nn.Linear, which every served module is
        "runtime_config",
        "swift_type",  # ms-swift's name for the same thing
        "lora_dtype",  # ms-swift: what A and B were trained in; the file says what they are in
        "lorap_lr_ratio",  # ms-swift: LoRA+'s learning rates
        "lorap_emb_lr",
        "unsloth_version",
    }
)

NOT_SERVED = {
    "modules_to_save": "whole modules saved beside the adapter are not served yet",
    "alora_invocation_tokens": "activated LoRA (aLoRA) is not served yet",
    "layer_replication": "an adapter that repeats layers changes the base's depth",
    "target_parameters": "LoRA on bare parameters is not served yet",
    "trainable_token_indices": "retrained token embeddings are not served yet",
    "use_qalora": "QALoRA is not served",
    "use_bdlora": "block-diagonal LoRA is not served",
    "arrow_config": "Arrow routing is not served; upload the adapters it routes between",
    "kasa_config": "KaSA is not served",
    "monteclora_config": "MonteCLoRA is not served",
    "velora_config": "VeLoRA is not served",
    "megatron_config": "Megatron's parallel layers are not served",
    "use_qa_lora": "QA-LoRA is not served",
    "use_merged_linear": "ms-swift's merged linears are not served; export to PEFT's format",
    "enable_lora": "ms-swift's merged linears are not served; export to PEFT's format",
}


def is_unset(value: Any) -> bool:
    """PEFT writes dozens of fields nobody chose: null, false and empty ones are harmless."""
    return value is None or value is False or value == "" or value == [] or value == {}


def init_message(init: Any) -> str:
    name = init.lower() if isinstance(init, str) else ""
    if name.startswith(CONVERTIBLE_INITS):
        remedy = (
            "Save it with PEFT's path_initial_model_for_weight_conversion, which turns it into "
            "plain LoRA."
        )
    elif name.startswith(QUANTISING_INITS):
        remedy = "PEFT has no exact conversion for it; train from another beginning."
    else:
        return f"init_lora_weights {shortened(init)!r} is not known here."
    return (
        f"init_lora_weights is {shortened(init)!r}, which changes the base model's weights, so "
        f"on the stock base the adapter would be wrong. {remedy}"
    )


def as_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def as_bias(value: Any) -> str:
    if value in ("", False):
        return "none"
    if value not in ("none", "lora_only", "all"):
        raise ValueError("'none', 'lora_only' or 'all'")
    return str(value)


def as_rank(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= MAX_RANK:
        raise ValueError(f"a whole number from 1 to {MAX_RANK}")
    return value


def as_alpha(value: Any) -> float:
    is_number = type(value) in (int, float)
    if not is_number or value == 0 or abs(value) > MAX_ALPHA:
        raise ValueError(
            f"a number other than 0 (an alpha of 0 turns the adapter off), at most {MAX_ALPHA:.0f}"
        )
    return float(value)


def as_strings(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise ValueError("a list of names")
    return tuple(value)


def as_layers(value: Any) -> tuple[int, ...]:
    layers = value if isinstance(value, list) else [value]
    if not all(type(layer) is int and 0 <= layer < 100_000 for layer in layers):
        raise ValueError("a layer's index or a list of them")
    return tuple(layers)
