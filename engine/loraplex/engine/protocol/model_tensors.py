"""The tensors a served architecture has, by name and shape, and whether a file holds just those."""

import re
from typing import Final

from loraplex.engine.protocol.model_config import ModelConfig, refuse
from loraplex.engine.protocol.model_files import StoredTensor
from loraplex.engine.protocol.module_table import LinearModule

SERVED_DTYPES: Final = ("F32", "F16", "BF16")

_IGNORED: Final = re.compile(r"rotary_emb\.inv_freq$")
"""Older files store this constant, which is computed from the config."""


def linears(config: ModelConfig) -> list[LinearModule]:
    """The seven linears of every layer, in the order of the forward pass."""
    hidden, wide = config.hidden_size, config.intermediate_size
    queries = config.attention_heads * config.head_size
    keys = config.kv_heads * config.head_size
    shapes = {
        "self_attn.q_proj": (hidden, queries),
        "self_attn.k_proj": (hidden, keys),
        "self_attn.v_proj": (hidden, keys),
        "self_attn.o_proj": (queries, hidden),
        "mlp.gate_proj": (hidden, wide),
        "mlp.up_proj": (hidden, wide),
        "mlp.down_proj": (wide, hidden),
    }
    return [
        LinearModule(
            path=f"model.layers.{layer}.{path}",
            layer=layer,
            linear=path.rpartition(".")[2],
            in_features=in_features,
            out_features=out_features,
            has_bias=_has_bias(path.rpartition(".")[2], config),
        )
        for layer in range(config.layers)
        for path, (in_features, out_features) in shapes.items()
    ]


def check_tensors(config: ModelConfig, found: dict[str, StoredTensor]) -> None:
    """Raise UnsupportedModel unless the file holds the architecture's tensors and no others."""
    expected = _expected_shapes(config)
    for name, shape in expected.items():
        _check_tensor(name, shape, found.get(name))
    may_be_there = {"lm_head.weight"} if config.has_tied_embeddings else set()
    for name in sorted(found.keys() - expected.keys() - may_be_there):
        # Serving without a tensor that the file has would serve another model than the file's.
        if not _IGNORED.search(name):
            refuse(
                f"The weights hold {name}, which {config.architecture} does not use.",
                name,
                f"a tensor of {config.architecture}",
                str(list(found[name].shape)),
            )


def _check_tensor(name: str, shape: tuple[int, ...], found: StoredTensor | None) -> None:
    rule = f"shape {list(shape)}"
    if found is None:
        refuse(f"The weights lack {name}.", name, rule, "missing")
    if found.shape != shape:
        shown = str(list(found.shape))
        refuse(f"{name} has the shape {shown}; config.json implies {rule}.", name, rule, shown)
    if found.dtype not in SERVED_DTYPES:
        served = f"one of {', '.join(SERVED_DTYPES)}"
        refuse(f"{name} is stored as {found.dtype}, not as {served}.", name, served, found.dtype)


def _expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    hidden, head = (config.hidden_size,), (config.head_size,)
    embeddings = (config.vocabulary_size, config.hidden_size)
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": embeddings,
        "model.norm.weight": hidden,
    }
    if not config.has_tied_embeddings:
        shapes["lm_head.weight"] = embeddings
    norms = {"input_layernorm": hidden, "post_attention_layernorm": hidden}
    if config.has_qk_norm:
        norms |= {"self_attn.q_norm": head, "self_attn.k_norm": head}
    for layer in range(config.layers):
        shapes |= {f"model.layers.{layer}.{norm}.weight": shape for norm, shape in norms.items()}
    for module in linears(config):
        shapes[f"{module.path}.weight"] = (module.out_features, module.in_features)
        if module.has_bias:
            shapes[f"{module.path}.bias"] = (module.out_features,)
    return shapes


def _has_bias(linear: str, config: ModelConfig) -> bool:
    if linear in {"q_proj", "k_proj", "v_proj"}:
        return config.has_qkv_bias
    return config.has_output_bias if linear == "o_proj" else config.has_mlp_bias
