"""Qwen2: biases on q, k and v (they stand in the shape), and upper layers that may slide."""

from loraplex.engine.models.decoder_config import (
    DecoderConfig,
    RawConfig,
    decoder_config,
    upper_layers_slide,
)
from loraplex.engine.protocol.model_config import ModelConfig


def configure(shape: ModelConfig, raw: RawConfig) -> DecoderConfig:
    return decoder_config(shape, raw, windows=upper_layers_slide(shape, raw))
