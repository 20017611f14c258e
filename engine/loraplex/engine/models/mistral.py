"""Mistral: Llama in which every layer slides, unless the window is null."""

from typing import Final

from loraplex.engine.models.decoder_config import (
    DecoderConfig,
    RawConfig,
    decoder_config,
    window_tokens,
)
from loraplex.engine.protocol.model_config import ModelConfig

_DEFAULT_WINDOW_TOKENS: Final = 4096
"""What Transformers takes where the field is absent."""


def configure(shape: ModelConfig, raw: RawConfig) -> DecoderConfig:
    window = window_tokens(raw, _DEFAULT_WINDOW_TOKENS)
    return decoder_config(shape, raw, windows=(window,) * shape.layers)
