"""A tiny Llama model as llama.cpp's converter would write it."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize

Weights = dict[str, npt.NDArray[np.float32]]

HIDDEN, HEADS, KV_HEADS, INTERMEDIATE, LAYERS = 64, 4, 2, 96, 2
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "a", "b", "Ġ", "ab"]
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def random_weights(seed: int = 0, *, is_tied: bool = True) -> Weights:
    """Weights under GGUF's names, q and k still in Hugging Face's order."""
    generator = np.random.default_rng(seed)
    key_size = HIDDEN // HEADS * KV_HEADS
    shapes = {"token_embd": (len(TOKENS), HIDDEN), "output_norm": (HIDDEN,)}
    if not is_tied:
        shapes["output"] = (len(TOKENS), HIDDEN)
    for layer in range(LAYERS):
        shapes |= {
            f"blk.{layer}.attn_norm": (HIDDEN,),
            f"blk.{layer}.attn_q": (HIDDEN, HIDDEN),
            f"blk.{layer}.attn_k": (key_size, HIDDEN),
            f"blk.{layer}.attn_v": (key_size, HIDDEN),
            f"blk.{layer}.attn_output": (HIDDEN, HIDDEN),
            f"blk.{layer}.ffn_norm": (HIDDEN,),
            f"blk.{layer}.ffn_gate": (INTERMEDIATE, HIDDEN),
            f"blk.{layer}.ffn_up": (INTERMEDIATE, HIDDEN),
            f"blk.{layer}.ffn_down": (HIDDEN, INTERMEDIATE),
        }
    return {
        f"{name}.weight": generator.standard_normal(shape, dtype=np.float32)
        for name, shape in shapes.items()
    }


def interleave_rotary_halves(
    weights: npt.NDArray[np.float32], heads: int
) -> npt.NDArray[np.float32]:
    """What llama.cpp's converter does to q and k, row by row."""
    half = weights.shape[0] // heads // 2
    order = [
        head * 2 * half + part * half + row
        for head in range(heads)
        for row in range(half)
        for part in (0, 1)
    ]
    return weights[order]


def write_gguf(
    path: Path,
    weights: Weights,
    *,
    architecture: str = "llama",
    tokenizer: str = "gpt2",
    add_bos_token: bool = False,
    kind: GGMLQuantizationType = GGMLQuantizationType.Q8_0,
) -> None:
    """Write the model; matrices are quantised to `kind`, vectors stay float32."""
    writer = GGUFWriter(path, architecture)
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model(tokenizer)
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 3] + [1] * (len(TOKENS) - 3))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(add_bos_token)
    writer.add_chat_template(TEMPLATE)
    for name, values in weights.items():
        stored = values
        if name.endswith("attn_q.weight"):
            stored = interleave_rotary_halves(values, HEADS)
        elif name.endswith("attn_k.weight"):
            stored = interleave_rotary_halves(values, KV_HEADS)
        is_matrix = stored.ndim == 2
        written = quantize(stored, kind) if is_matrix else stored
        writer.add_tensor(name, written, raw_dtype=kind if is_matrix else None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
