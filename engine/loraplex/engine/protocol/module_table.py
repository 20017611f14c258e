"""Names and shapes of a base model's linears: what an adapter may attach to."""

from typing import Final

import msgspec

from loraplex.engine.protocol.identity import Digest

EMBEDDING: Final = "model.embed_tokens"
HEAD: Final = "lm_head"
NO_LAYER: Final = -1


class LinearModule(msgspec.Struct, frozen=True):
    """One linear of the base, at `path` (`model.layers.3.self_attn.q_proj`)."""

    path: str
    layer: int
    linear: str
    """The last part of the path: `q_proj`, …, `down_proj`."""
    in_features: int
    out_features: int
    has_bias: bool = False


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
    is_tied: bool = False
    """Whether the output head is the embedding's table."""
    table_digests: dict[str, Digest] = {}
    """SHA-256 of the embedding's and the head's weights as little-endian float32, by path: how a
    copy that an adapter's file holds is recognised."""

    @property
    def ends(self) -> tuple[LinearModule, LinearModule]:
        """The embedding, a linear of tokens as rows of zeros and a one, and the output head."""
        hidden, vocabulary = self.hidden_size, self.vocabulary_size
        return (
            LinearModule(EMBEDDING, NO_LAYER, "embed_tokens", vocabulary, hidden),
            LinearModule(HEAD, NO_LAYER, "lm_head", hidden, vocabulary),
        )

    def by_path(self) -> dict[str, LinearModule]:
        return {module.path: module for module in self.modules}
