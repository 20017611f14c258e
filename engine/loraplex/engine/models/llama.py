"""Llama: every layer sees the whole sequence."""

from loraplex.engine.models.decoder_config import DecoderConfig, RawConfig, decoder_config
from loraplex.engine.protocol.model_config import ModelConfig


def configure(shape: ModelConfig, raw: RawConfig) -> DecoderConfig:
    return decoder_config(shape, raw, windows=(None,) * shape.layers)
