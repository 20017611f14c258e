"""No field of the installed PEFT's LoraConfig, nor of the configurations in it, goes unnoticed."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

from peft import LoraConfig

from loraplex.adapters_registry.peft_fields import IGNORED, NOT_SERVED
from tests.engine.lora.test_kinds import REFUSED, SERVED

WRITTEN_BY_PEFT = {"peft_type", "auto_mapping", "peft_version"}
"""In every fixture, whatever it is made of."""

MADE_OF_OTHERS = {"arrow_config"}
"""A router between adapters, see test_arrow.py."""

HARMLESS_PARTS = {
    "loftq_config": {"loftq_bits", "loftq_iter"},
    "eva_config": {
        *("rho", "tau", "use_label_mask", "label_mask_value", "whiten"),
        "adjust_scaling_factors",  # what came of it stands in alpha_pattern
    },
    "corda_config": {
        *("cache_file", "covariance_file", "corda_method", "verbose"),
        *("use_float16_for_covariance", "prune_temporary_fields"),
    },
    "lora_ga_config": {"direction", "scale", "stable_gamma"},
    "runtime_config": {"ephemeral_gpu_offload"},
}
"""Of configurations that are not looked into: of beginnings, and of the machine that trains."""


def parts_of(kind: Any) -> Iterator[type]:
    """The dataclasses among the types that a field may have."""
    if is_dataclass(kind):
        assert isinstance(kind, type)
        yield kind
    for one in get_args(kind):
        yield from parts_of(one)


def test_every_field_is_set_in_a_fixture_that_is_served_or_refused() -> None:
    options = [*SERVED.values(), *(chosen for chosen, _ in REFUSED.values())]
    set_in_one = {name for one in options for name in one.config | one.late}
    known = set_in_one | WRITTEN_BY_PEFT | MADE_OF_OTHERS
    assert {one.name for one in fields(LoraConfig)} <= known


def test_every_field_of_a_configuration_within_is_refused_with_it_or_known_to_be_harmless() -> None:
    parts = {
        name: {one.name for part in parts_of(kind) for one in fields(part)}
        for name, kind in get_type_hints(LoraConfig).items()
    }
    looked_into = {name: within for name, within in parts.items() if within}
    harmless = {name: within for name, within in looked_into.items() if name not in NOT_SERVED}
    assert harmless == HARMLESS_PARTS
    assert harmless.keys() <= IGNORED
    assert looked_into.keys() - harmless.keys() == {
        *("arrow_config", "kasa_config", "monteclora_config", "use_bdlora", "velora_config"),
    }
