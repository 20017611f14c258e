"""Reads adapter_config.json: what PEFT would do with each field, or why it is not served."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from loraplex.adapters_registry.peft_fields import (
    IGNORED,
    NOT_SERVED,
    SERVED_INITS,
    as_alpha,
    as_bias,
    as_bool,
    as_layers,
    as_rank,
    as_strings,
    init_message,
    is_unset,
)
from loraplex.adapters_registry.peft_targets import ALL_LINEAR
from loraplex.adapters_registry.rejection import (
    AdapterRejected,
    ReasonCode,
    RejectionReason,
    reject,
    shortened,
)
from loraplex.adapters_registry.strict_json import JsonRefused, parse_strictly

T = TypeVar("T")

CONFIG_FIELD = "adapter_config"
MAX_CONFIG_BYTES = 256 * 1024
MAX_CONFIG_DEPTH = 8
MAX_CONFIG_ITEMS = 20_000
MAX_PATTERN_CHARACTERS = 1024
DEFAULT_RANK = DEFAULT_ALPHA = 8


class AdapterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What of a LoraConfig decides the fine-tune; everything else is harmless or was refused."""

    rank: int
    alpha: float
    use_rslora: bool
    rank_pattern: dict[str, int]
    alpha_pattern: dict[str, float]
    target_modules: tuple[str, ...] | str
    exclude_modules: tuple[str, ...] | str
    layers_to_transform: tuple[int, ...]
    layers_pattern: tuple[str, ...]
    bias: str
    """`none`, `lora_only` or `all`: which of the base's biases the file replaces."""
    lora_bias: bool
    use_dora: bool
    ensure_weight_tying: bool


def parse_config(data: bytes) -> AdapterConfig:
    """The meaning of an adapter_config.json. Raises AdapterRejected with every reason found."""
    return FieldReader(read_object(data)).config()


def read_object(data: bytes) -> dict[str, Any]:
    if len(data) > MAX_CONFIG_BYTES:
        raise unreadable(f"has {len(data)} bytes; at most {MAX_CONFIG_BYTES} are accepted")
    try:
        value = parse_strictly(data, max_depth=MAX_CONFIG_DEPTH, max_items=MAX_CONFIG_ITEMS)
    except JsonRefused as refused:
        raise unreadable(str(refused)) from None
    if not isinstance(value, dict):
        kind = {list: "a list", str: "a string", type(None): "null"}.get(type(value), "a number")
        raise unreadable(
            f"is {kind}; it must be a JSON object, as PEFT's save_pretrained writes it"
        )
    return value


def unreadable(fault: str) -> AdapterRejected:
    return reject(ReasonCode.CONFIG_UNREADABLE, f"adapter_config.json {fault}.", CONFIG_FIELD)


class FieldReader:
    """Reads fields one by one and collects what is wrong with them."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.reasons: list[RejectionReason] = []
        self.read: set[str] = set()

    def config(self) -> AdapterConfig:
        self.check_kind()
        target_modules = self.names("target_modules", is_needed=True)
        config = AdapterConfig(
            rank=self.value("r", DEFAULT_RANK, as_rank),
            alpha=self.value("lora_alpha", float(DEFAULT_ALPHA), as_alpha),
            use_rslora=self.value("use_rslora", False, as_bool),
            rank_pattern=self.patterns("rank_pattern", as_rank),
            alpha_pattern=self.patterns("alpha_pattern", as_alpha),
            target_modules=target_modules,
            exclude_modules=self.names("exclude_modules"),
            layers_to_transform=self.value("layers_to_transform", (), as_layers),
            layers_pattern=self.value("layers_pattern", (), as_strings),
            bias=self.value("bias", "none", as_bias),
            lora_bias=self.value("lora_bias", False, as_bool),
            use_dora=self.value("use_dora", False, as_bool),
            ensure_weight_tying=self.value("ensure_weight_tying", False, as_bool),
        )
        self.check_layers(config)
        self.check_variants(config)
        self.check_not_served()
        self.check_unknown()
        if self.reasons:
            raise AdapterRejected(self.reasons)
        return config

    def refuse(self, code: ReasonCode, field: str, message: str) -> None:
        self.reasons.append(RejectionReason(code, message, field))

    def take(self, field: str) -> Any:
        self.read.add(field)
        return self.fields.get(field)

    def value(self, field: str, default: T, convert: Callable[[Any], T]) -> T:
        found = self.take(field)
        if found is None:
            return default
        try:
            return convert(found)
        except ValueError as error:
            message = f"{field} must be {error}; found {shortened(found)}."
            self.refuse(ReasonCode.CONFIG_FIELD_INVALID, field, message)
            return default

    def patterns(self, field: str, convert: Callable[[Any], T]) -> dict[str, T]:
        found = self.take(field) or {}
        if not isinstance(found, dict):
            message = f"{field} must map patterns of module names to numbers."
            self.refuse(ReasonCode.CONFIG_FIELD_INVALID, field, message)
            return {}
        values = {}
        for pattern, value in found.items():
            self.check_pattern(field, pattern)
            try:
                values[pattern] = convert(value)
            except ValueError as error:
                message = (
                    f"{field}[{shortened(pattern)!r}] must be {error}; found {shortened(value)}."
                )
                self.refuse(ReasonCode.CONFIG_FIELD_INVALID, field, message)
        return values

    def names(self, field: str, is_needed: bool = False) -> tuple[str, ...] | str:
        found = self.take(field)
        if isinstance(found, str) and found:
            if found.lower() != ALL_LINEAR:
                self.check_pattern(field, found)
            return found
        nothing: tuple[str, ...] = ()
        names = self.value(field, nothing, as_strings)
        if is_needed and not names and not any(r.field == field for r in self.reasons):
            message = (
                f"{field} is empty; it must list module names, be a pattern, or say 'all-linear'."
            )
            self.refuse(ReasonCode.CONFIG_FIELD_INVALID, field, message)
        return names

    def check_pattern(self, field: str, pattern: str) -> None:
        try:
            if len(pattern) > MAX_PATTERN_CHARACTERS:
                raise ValueError(f"longer than {MAX_PATTERN_CHARACTERS} characters")
            re.compile(pattern)
        except (ValueError, re.error, RecursionError, OverflowError) as error:
            message = (
                f"{field} holds a pattern that cannot be used: {shortened(pattern)!r} ({error})."
            )
            self.refuse(ReasonCode.CONFIG_FIELD_INVALID, field, message)

    def check_kind(self) -> None:
        kind, task = self.take("peft_type"), self.take("task_type")
        init = self.take("init_lora_weights")
        if kind != "LORA":
            message = f"peft_type must be 'LORA'; found {shortened(kind)!r}."
            self.refuse(ReasonCode.NOT_SERVED, "peft_type", message)
        if task not in (None, "", "CAUSAL_LM"):
            message = f"task_type must be 'CAUSAL_LM' or null; found {shortened(task)!r}."
            self.refuse(ReasonCode.NOT_SERVED, "task_type", message)
        if not (init is None or isinstance(init, bool) or init in ("", *SERVED_INITS)):
            self.refuse(ReasonCode.NOT_SERVED, "init_lora_weights", init_message(init))

    def check_layers(self, config: AdapterConfig) -> None:
        if config.layers_pattern and not config.layers_to_transform:
            message = (
                "layers_pattern means nothing without layers_to_transform; PEFT refuses it too."
            )
            self.refuse(ReasonCode.CONFIG_FIELD_INVALID, "layers_pattern", message)
        if isinstance(config.target_modules, str) and config.layers_to_transform:
            message = (
                "layers_to_transform cannot be used when target_modules is a pattern; "
                "PEFT refuses it too."
            )
            self.refuse(ReasonCode.CONFIG_FIELD_INVALID, "layers_to_transform", message)
        for pattern in config.layers_pattern:
            self.check_pattern("layers_pattern", pattern)

    def check_variants(self, config: AdapterConfig) -> None:
        if config.use_dora and config.lora_bias:
            message = "lora_bias cannot be used with use_dora; PEFT refuses it too."
            self.refuse(ReasonCode.CONFIG_FIELD_INVALID, "lora_bias", message)

    def check_not_served(self) -> None:
        for field, why in NOT_SERVED.items():
            value = self.take(field)
            if not is_unset(value):
                message = f"{field} is set to {shortened(value)}: {why}."
                self.refuse(ReasonCode.NOT_SERVED, field, message)

    def check_unknown(self) -> None:
        for field in self.fields.keys() - self.read - IGNORED:
            value = self.fields[field]
            if not is_unset(value):
                message = (
                    f"The field {shortened(field)!r} is not known here and is set to "
                    f"{shortened(value)}; it might change what the adapter does. "
                    "Remove it or set it to null if it does not."
                )
                self.refuse(ReasonCode.CONFIG_FIELD_UNKNOWN, shortened(field), message)
