"""Which file reads which architecture."""

from pathlib import Path
from typing import Final

from loraplex.engine.models import llama, mistral, qwen2, qwen3
from loraplex.engine.models.decoder_config import DecoderConfig
from loraplex.engine.protocol.model_config import read_json, read_model_config

ARCHITECTURES: Final = {
    "LlamaForCausalLM": llama.configure,
    "MistralForCausalLM": mistral.configure,
    "Qwen2ForCausalLM": qwen2.configure,
    "Qwen3ForCausalLM": qwen3.configure,
}


def read_decoder_config(model_dir: Path) -> DecoderConfig:
    """Read a Hugging Face directory's `config.json`; raises UnsupportedModel by name."""
    shape = read_model_config(model_dir)
    return ARCHITECTURES[shape.architecture](shape, read_json(model_dir / "config.json"))
