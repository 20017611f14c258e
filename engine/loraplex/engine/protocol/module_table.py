"""Names and shapes of a base model's linears: what an adapter may attach to."""

import msgspec

from loraplex.engine.protocol.identity import Digest


class LinearModule(msgspec.Struct, frozen=True):
    """One linear of the base, at `path` (`model.layers.3.self_attn.q_proj`)."""

    path: str
    layer: int
    linear: str
    """The last part of the path: `q_proj`, …, `down_proj`."""
    in_features: int
    out_features: int


class ModuleTable(msgspec.Struct, frozen=True):
    """What the rest of the house knows of a base model; written as `loraplex.json` at import.

    `base_digest` is the digest of a manifest of the model's own files (config, weights,
    tokenizer), so the same files have the same digest wherever they lie.
    """

    base_name: str
    base_digest: Digest
    architecture: str
    layers: int
    hidden_size: int
    vocabulary_size: int
    max_model_tokens: int
    eos_token_ids: tuple[int, ...]
    modules: tuple[LinearModule, ...]

    def by_path(self) -> dict[str, LinearModule]:
        return {module.path: module for module in self.modules}
