"""A validated adapter as the engine reads it: resolved modules, true ranks, scales, bytes.

The registry makes an AdapterSpec from an upload once, so PEFT's meaning is written in one place;
the engine multiplies what stands here and asks nothing else.
"""

from typing import Literal

import msgspec

from loraplex.engine.protocol.identity import Digest, TenantNamespace

TensorDtype = Literal["F32", "F16", "BF16"]


class TensorRef(msgspec.Struct, frozen=True):
    """Where a tensor lies in the adapter's safetensors file.

    `start` and `end` are byte offsets from the start of the file (header included). A vector has
    the shape (1, its length).
    """

    name: str
    dtype: TensorDtype
    shape: tuple[int, int]
    start: int
    end: int


class AdapterModule(msgspec.Struct, frozen=True):
    """One adapted module: y += scale · (x · Aᵀ) · Bᵀ.

    `a` holds A `[rank, in_features]` and `b` holds B `[out_features, rank]`. `rank` is the true
    rank in the file; `scale` is what PEFT uses (alpha and rank after their patterns, rsLoRA). Of
    an embedding x is the token as a row of zeros and a one. `layer` is -1 outside the layers.
    """

    path: str
    layer: int
    linear: str
    rank: int
    scale: float
    a: TensorRef
    b: TensorRef
    bias: TensorRef | None = None
    """PEFT's lora_bias: y += scale · bias."""
    magnitude: TensorRef | None = None
    """DoRA: each feature of y, but for the base's bias, is scaled by its magnitude over the norm
    of its row of W + scale · B · A (of its column, for an embedding's table)."""


class ReplacedBias(msgspec.Struct, frozen=True):
    """A bias that stands in the place of the base linear's own, adapted or not."""

    path: str
    tensor: TensorRef


class AdapterSpec(msgspec.Struct, frozen=True):
    """Everything the engine needs to pack an adapter, under the digest that identifies it."""

    digest: Digest
    base_digest: Digest
    weights_digest: Digest
    """SHA-256 of the safetensors file itself: what a fetched copy is checked against."""
    weights_bytes: int
    modules: tuple[AdapterModule, ...]
    """The linears of the layers."""
    embedding: AdapterModule | None = None
    head: AdapterModule | None = None
    biases: tuple[ReplacedBias, ...] = ()

    @property
    def every_module(self) -> tuple[AdapterModule, ...]:
        """The linears, and before and after them the embedding and the output head."""
        ends = (self.embedding, self.head)
        first, last = (() if end is None else (end,) for end in ends)
        return (*first, *self.modules, *last)

    @property
    def parameters(self) -> int:
        """Weights at true ranks, summed over A and B."""
        return sum(
            module.rank * (module.a.shape[1] + module.b.shape[0]) for module in self.every_module
        )

    @property
    def max_rank(self) -> int:
        return max(module.rank for module in self.every_module)


class AdapterRef(msgspec.Struct, frozen=True):
    """An adapter as a request carries it: what it is, whose cache it may use, where to get it."""

    spec: AdapterSpec
    namespace: TenantNamespace
    url: str
    """A presigned GET of the safetensors file; the worker holds no store credentials."""
