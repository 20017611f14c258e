"""Good adapters, mutated: the guard never crashes or hangs, and accepts nothing it misreads."""

import json
import math
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load

from loraplex.adapters_registry.peft import spec_from_files
from loraplex.adapters_registry.rejection import AdapterRejected
from loraplex.adapters_registry.validation import ValidationLimits, validate_files
from loraplex.engine.protocol.adapter import AdapterSpec
from tests.adapters_registry.samples import TINY, examples, sample

with tempfile.TemporaryDirectory() as _folder:
    CONFIG, _weights = sample(linears=("q_proj", "v_proj", "down_proj")).write(Path(_folder))
    WEIGHTS = _weights.read_bytes()
HEADER_BYTES = struct.unpack("<Q", WEIGHTS[:8])[0]

junk: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["q_proj", "all-linear", ".*", "(", "a{99}", "model.layers.0"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=6,
)


@st.composite
def mutated_bytes(draw: st.DrawFn) -> bytes:
    """The weights with bytes flipped, cut, repeated or put in; mostly in the header."""
    data = bytearray(WEIGHTS)
    for _ in range(draw(st.integers(1, 4))):
        region = draw(st.sampled_from([8, 8 + HEADER_BYTES, len(WEIGHTS)]))
        place = draw(st.integers(0, max(0, min(region, len(data)) - 1)))
        match draw(st.sampled_from(["flip", "cut", "insert", "drop", "digit"])):
            case "flip":
                data[place : place + 1] = bytes([draw(st.integers(0, 255))])
            case "cut":
                del data[place:]
            case "insert":
                data[place:place] = draw(st.binary(min_size=1, max_size=9))
            case "drop":
                del data[place : place + draw(st.integers(1, 40))]
            case "digit":
                data[place : place + 1] = draw(st.sampled_from([b"0", b"9", b"-", b",", b'"']))
    return bytes(data)


@st.composite
def mutated_header(draw: st.DrawFn) -> bytes:
    """The weights under a header that is sound JSON but says something else."""
    header = json.loads(WEIGHTS[8 : 8 + HEADER_BYTES])
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(header)))
        other = draw(st.sampled_from(sorted(header)))
        match draw(st.sampled_from(["swap", "rename", "field", "value", "drop"])):
            case "swap":
                header[name], header[other] = header[other], header[name]
            case "rename":
                header[draw(st.text(max_size=30)) or other] = header.pop(name)
            case "field" if isinstance(header[name], dict):
                field = draw(st.sampled_from(["dtype", "shape", "data_offsets", "extra"]))
                header[name] = header[name] | {field: draw(junk)}
            case "value":
                header[name] = draw(junk)
            case "drop" if len(header) > 1:
                del header[name]
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + WEIGHTS[8 + HEADER_BYTES :]


@st.composite
def mutated_config(draw: st.DrawFn) -> bytes:
    config = json.loads(CONFIG)
    known = [*sorted(config), "use_rslora", "rank_pattern", "alpha_pattern", "layers_to_transform"]
    known += ["layers_pattern", "exclude_modules", "bias", "use_dora", "init_lora_weights"]
    for _ in range(draw(st.integers(1, 3))):
        field = draw(st.sampled_from(known) | st.text(max_size=12))
        config[field] = draw(junk)
    return json.dumps(config).encode()


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
@given(mutated_bytes())
def test_flipped_and_cut_bytes_are_refused_or_read_right(weights: bytes) -> None:
    if (spec := outcome(CONFIG, weights)) is not None:
        check_against_the_library(spec, weights)


@settings(max_examples=examples(300, 10_000), deadline=None)
@given(mutated_header())
def test_headers_that_say_something_else_are_refused_or_read_right(weights: bytes) -> None:
    if (spec := outcome(CONFIG, weights)) is not None:
        check_against_the_library(spec, weights)


@settings(max_examples=examples(300, 10_000), deadline=None)
@given(mutated_config())
def test_configs_with_other_values_are_refused_or_change_no_shape(config: bytes) -> None:
    if (spec := outcome(config, WEIGHTS)) is not None:
        check_against_the_library(spec, WEIGHTS)


@settings(max_examples=examples(3, 200), deadline=None)
@given(mutated_config(), mutated_bytes())
def test_the_validator_process_gives_a_verdict_on_anything(config: bytes, weights: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config_path, weights_path = Path(folder, "config"), Path(folder, "weights")
        config_path.write_bytes(config)
        weights_path.write_bytes(weights)
        verdict = validate_files(config_path, weights_path, TINY, ValidationLimits())
    assert (verdict.spec is None) == bool(verdict.reasons)
