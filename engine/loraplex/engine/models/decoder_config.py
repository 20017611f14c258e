"""What the decoder needs to know of a model, whatever its architecture."""

from dataclasses import dataclass
from typing import Any

from loraplex.engine.models.rope import RopeConfig, read_rope
from loraplex.engine.protocol.model_config import ModelConfig, refuse

RawConfig = dict[str, Any]
"""`config.json` as it stands; checked where it is read."""


@dataclass(frozen=True)
class DecoderConfig:
    """`windows` has one entry a layer: tokens it sees, or None for all."""

    shape: ModelConfig
    rms_epsilon: float
    rope: RopeConfig
    windows: tuple[int | None, ...]

    @property
    def query_size(self) -> int:
        return self.shape.attention_heads * self.shape.head_size

    @property
    def kv_size(self) -> int:
        return self.shape.kv_heads * self.shape.head_size


def decoder_config(
    shape: ModelConfig, raw: RawConfig, windows: tuple[int | None, ...]
) -> DecoderConfig:
    """Fill in what all architectures share; raises UnsupportedModel."""
    return DecoderConfig(
        shape=shape,
        rms_epsilon=float(raw.get("rms_norm_eps", 1e-6)),
        rope=read_rope(raw, shape.head_size),
        windows=windows,
    )


def window_tokens(raw: RawConfig, default: int | None) -> int | None:
    """The sliding window, None where there is none."""
    window = raw.get("sliding_window", default)
    if window is None:
        return None
    if not isinstance(window, int) or isinstance(window, bool) or window < 1:
        refuse("The sliding window is no number of tokens.", "sliding_window", "≥ 1", repr(window))
    return window


def upper_layers_slide(shape: ModelConfig, raw: RawConfig) -> tuple[int | None, ...]:
    """Qwen's rule: with `use_sliding_window`, layers from `max_window_layers` on slide.

    Where `layer_types` is given, it decides.
    """
    window = window_tokens(raw, 4096) if raw.get("use_sliding_window") else None
    kinds = raw.get("layer_types")
    if kinds is None:
        first = int(raw.get("max_window_layers", 28))
        return tuple(window if layer >= first else None for layer in range(shape.layers))
    if not isinstance(kinds, list) or len(kinds) != shape.layers:
        refuse("layer_types must name every layer.", "layer_types", f"{shape.layers}", repr(kinds))
    known = {"full_attention": None, "sliding_attention": window}
    for kind in kinds:
        if kind not in known:
            refuse(
                f"Layers of the type {kind!r} are not served.",
                "layer_types",
                "full_attention or sliding_attention",
                str(kind),
            )
    return tuple(known[kind] for kind in kinds)
