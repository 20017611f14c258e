"""Good uploads, spoiled: bytes flipped and cut, headers and configurations that lie."""

import json
import struct
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

junk: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["q_proj", "all-linear", ".*", "(", "a{99}", "model.layers.0", "lm_head"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=6,
)

FIELDS = [
    *("use_rslora", "rank_pattern", "alpha_pattern", "layers_to_transform", "layers_pattern"),
    *("exclude_modules", "bias", "use_dora", "lora_bias", "init_lora_weights", "lora_alpha"),
    *("ensure_weight_tying", "modules_to_save"),
]


@dataclass(frozen=True)
class Upload:
    config: bytes
    weights: bytes

    @property
    def header_bytes(self) -> int:
        return int(struct.unpack("<Q", self.weights[:8])[0])


@st.composite
def mutated_bytes(draw: st.DrawFn, good: Upload) -> bytes:
    """The weights with bytes flipped, cut, repeated or put in; mostly in the header."""
    data = bytearray(good.weights)
    for _ in range(draw(st.integers(1, 4))):
        region = draw(st.sampled_from([8, 8 + good.header_bytes, len(good.weights)]))
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
def mutated_header(draw: st.DrawFn, good: Upload) -> bytes:
    """The weights under a header that is sound JSON but says something else."""
    data_start = 8 + good.header_bytes
    header = json.loads(good.weights[8:data_start])
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
    return struct.pack("<Q", len(raw)) + raw + good.weights[data_start:]


@st.composite
def mutated_values(draw: st.DrawFn, good: Upload) -> bytes:
    """The weights with other numbers in them; most are still an adapter."""
    data = bytearray(good.weights)
    for _ in range(draw(st.integers(1, 30))):
        place = draw(st.integers(8 + good.header_bytes, len(data) - 1))
        data[place] = draw(st.integers(0, 255))
    return bytes(data)


@st.composite
def mutated_config(draw: st.DrawFn, good: Upload) -> bytes:
    config = json.loads(good.config)
    for _ in range(draw(st.integers(1, 3))):
        field = draw(st.sampled_from([*sorted(config), *FIELDS]) | st.text(max_size=12))
        config[field] = draw(junk)
    return json.dumps(config).encode()


@st.composite
def mutated(draw: st.DrawFn, good: Upload) -> Upload:
    """One of the files spoiled, or both."""
    config = draw(st.just(good.config) | mutated_config(good))
    weights = draw(
        st.just(good.weights) | mutated_bytes(good) | mutated_header(good) | mutated_values(good)
    )
    return Upload(config, weights)
