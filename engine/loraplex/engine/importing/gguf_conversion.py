"""Turns a GGUF file of the Llama architecture into a Hugging Face directory in bfloat16."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from loraplex.engine.importing.bfloat16_file import Bfloat16File, Float32Rows
from loraplex.engine.importing.errors import CorruptModelSource
from loraplex.engine.importing.gguf_file import GgufFile, GgufTensor, read_gguf
from loraplex.engine.importing.gguf_tokenizer import write_tokenizer
from loraplex.engine.importing.progress import Progress
from loraplex.engine.protocol.errors import UnsupportedModel

CHUNK_ELEMENTS: Final = 4 * 1024 * 1024
"""Elements dequantised at a time: 16 MiB of float32, whatever the size of the model."""

_MODEL_TENSORS: Final = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER_TENSORS: Final = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}


def convert_gguf(source: Path, directory: Path, progress: Progress) -> None:
    """Write config, generation config, tokenizer, template and weights into `directory`.

    Weights are dequantised to float32 and rounded to bfloat16. Raises UnsupportedModel for an
    architecture or tokenizer that is not converted, CorruptModelSource for a broken file.
    """
    file = read_gguf(source)
    architecture = file.metadata.get("general.architecture")
    if architecture != "llama":
        raise UnsupportedModel(
            f"The GGUF file holds a {architecture!r} model; only 'llama' is converted.",
            field="general.architecture",
            rule="llama",
            value=str(architecture),
        )
    try:
        config = _config(file)
        _write_json(directory / "config.json", config)
        _write_json(directory / "generation_config.json", _generation_config(config))
        write_tokenizer(file.metadata, directory, config["max_position_embeddings"])
    except KeyError as error:
        raise CorruptModelSource(
            f"The GGUF file lacks the metadata {error.args[0]!r}.",
            field=str(error.args[0]),
            rule="present in a llama model",
        ) from error
    _write_weights(file, directory / "model.safetensors", config, progress)


def _config(file: GgufFile) -> dict[str, Any]:
    metadata = file.metadata
    heads: int = metadata["llama.attention.head_count"]
    hidden_size: int = metadata["llama.embedding_length"]
    theta = metadata.get("llama.rope.freq_base", 10000.0)
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": metadata.get("tokenizer.ggml.bos_token_id"),
        "dtype": "bfloat16",
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"],
        "head_dim": metadata.get("llama.attention.key_length", hidden_size // heads),
        "hidden_act": "silu",
        "hidden_size": hidden_size,
        "intermediate_size": metadata["llama.feed_forward_length"],
        "max_position_embeddings": metadata["llama.context_length"],
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": metadata["llama.block_count"],
        "num_key_value_heads": metadata.get("llama.attention.head_count_kv", heads),
        "pad_token_id": metadata.get("tokenizer.ggml.padding_token_id"),
        "rms_norm_eps": metadata["llama.attention.layer_norm_rms_epsilon"],
        "rope_parameters": {"rope_theta": theta, "rope_type": "default"},
        "rope_theta": theta,
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "vocab_size": len(metadata["tokenizer.ggml.tokens"]),
    }


def _generation_config(config: dict[str, Any]) -> dict[str, Any]:
    kept = ("bos_token_id", "eos_token_id", "pad_token_id")
    return {key: config[key] for key in kept if config[key] is not None}


def _write_weights(file: GgufFile, path: Path, config: dict[str, Any], progress: Progress) -> None:
    names = {_hugging_face_name(name): name for name in file.tensors}
    shapes = {name: file.tensors[source].shape for name, source in sorted(names.items())}
    weights = Bfloat16File(path, shapes)
    done_bytes = 0
    try:
        for name in shapes:
            tensor = file.tensors[names[name]]
            rows = _in_rotary_halves(tensor, config)
            chunks = _dequantised(rows, tensor.type_code, tensor.shape[-1])
            for chunk_bytes in weights.write(name, chunks):
                done_bytes += chunk_bytes
                progress("Converting weights", done_bytes, weights.total_bytes)
    finally:
        weights.close()


def _hugging_face_name(name: str) -> str:
    if name in _MODEL_TENSORS:
        return _MODEL_TENSORS[name]
    block, _, rest = name.partition(".")
    layer, _, tensor = rest.partition(".")
    if block == "blk" and layer.isdecimal() and tensor in _LAYER_TENSORS:
        return f"model.layers.{int(layer)}.{_LAYER_TENSORS[tensor]}"
    raise UnsupportedModel(
        f"The GGUF file holds the tensor {name!r}, which a llama model does not have.",
        field=name,
        rule="a tensor of the Llama architecture",
    )


def _in_rotary_halves(tensor: GgufTensor, config: dict[str, Any]) -> npt.NDArray[np.uint8]:
    """The tensor's quantised rows in Hugging Face's order.

    llama.cpp interleaves the two rotary halves of every head of q and k. Quantised rows are
    independent of each other, so they are put back before they are dequantised.
    """
    if tensor.name.endswith(".attn_q.weight"):
        heads: int = config["num_attention_heads"]
    elif tensor.name.endswith(".attn_k.weight"):
        heads = config["num_key_value_heads"]
    else:
        return tensor.rows
    rows, row_bytes = tensor.rows.shape
    interleaved = tensor.rows.reshape(heads, rows // heads // 2, 2, row_bytes)
    return interleaved.swapaxes(1, 2).reshape(rows, row_bytes)


def _dequantised(
    rows: npt.NDArray[np.uint8], type_code: int, columns: int
) -> Iterator[Float32Rows]:
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    kind = GGMLQuantizationType(type_code)
    chunk_rows = max(1, CHUNK_ELEMENTS // columns)
    for start in range(0, len(rows), chunk_rows):
        yield dequantize(np.ascontiguousarray(rows[start : start + chunk_rows]), kind)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")
