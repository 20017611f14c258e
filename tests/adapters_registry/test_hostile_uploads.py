"""Good adapters, mutated: the guard never crashes or hangs, and accepts nothing it misreads."""

import math
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from safetensors.numpy import load

from loraplex.adapters_registry.peft import spec_from_files
from loraplex.adapters_registry.rejection import AdapterRejected
from loraplex.engine.protocol.adapter import AdapterSpec
from tests.adapters_registry.mutations import (
    Upload,
    mutated_bytes,
    mutated_config,
    mutated_header,
)
from tests.adapters_registry.samples import TINY, sample
from tests.soak import examples

with tempfile.TemporaryDirectory() as _folder:
    _config, _weights = sample(linears=("q_proj", "v_proj", "down_proj")).write(Path(_folder))
    GOOD = Upload(_config, _weights.read_bytes())


def outcome(config: bytes, weights: bytes) -> AdapterSpec | None:
    """The spec, or None when the upload was refused with reasons; anything else is a bug."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "adapter_model.safetensors")
        path.write_bytes(weights)
        try:
            return spec_from_files(config, path, TINY)
        except AdapterRejected as rejected:
            assert rejected.reasons
            assert all(reason.message.endswith((".", "?")) for reason in rejected.reasons)
            return None


def check_against_the_library(spec: AdapterSpec, weights: bytes) -> None:
    """An accepted file reads with the library as the spec says, whole and finite."""
    tensors = load(weights)
    assert len(tensors) == 2 * len(spec.modules)
    linears = TINY.by_path()
    for module in spec.modules:
        linear = linears[module.path]
        assert math.isfinite(module.scale)
        for ref, shape in (
            (module.a, (module.rank, linear.in_features)),
            (module.b, (linear.out_features, module.rank)),
        ):
            expected = tensors[ref.name]
            assert expected.shape == ref.shape == shape
            assert np.isfinite(expected).all()
            assert weights[ref.start : ref.end] == expected.tobytes()


@settings(max_examples=examples(300, 10_000), deadline=None)
@given(mutated_bytes(GOOD))
def test_flipped_and_cut_bytes_are_refused_or_read_right(weights: bytes) -> None:
    if (spec := outcome(GOOD.config, weights)) is not None:
        check_against_the_library(spec, weights)


@settings(max_examples=examples(300, 10_000), deadline=None)
@given(mutated_header(GOOD))
def test_headers_that_say_something_else_are_refused_or_read_right(weights: bytes) -> None:
    if (spec := outcome(GOOD.config, weights)) is not None:
        check_against_the_library(spec, weights)


@settings(max_examples=examples(300, 10_000), deadline=None)
@given(mutated_config(GOOD))
def test_configs_with_other_values_are_refused_or_change_no_shape(config: bytes) -> None:
    if (spec := outcome(config, GOOD.weights)) is not None:
        check_against_the_library(spec, GOOD.weights)
