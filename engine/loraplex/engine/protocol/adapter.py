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

    `start` and `end` are byte offsets from the start of the file (header included).
    """

    name: str
    dtype: TensorDtype
    shape: tuple[int, int]
    start: int
    end: int


class AdapterModule(msgspec.Struct, frozen=True):
    """One adapted linear: y += scale · (x · Aᵀ) · Bᵀ.

    `a` holds A `[rank, in_features]` and `b` holds B `[out_features, rank]`. `rank` is the true
    rank in the file; `scale` is what PEFT uses (alpha and rank after their patterns, rsLoRA).
    """

    path: str
    layer: int
    linear: str
    rank: int
    scale: float
    a: TensorRef
    b: TensorRef


class AdapterSpec(msgspec.Struct, frozen=True):
    """Everything the engine needs to pack an adapter, under the digest that identifies it."""

    digest: Digest
    base_digest: Digest
    weights_digest: Digest
    """SHA-256 of the safetensors file itself: what a fetched copy is checked against."""
    weights_bytes: int
    modules: tuple[AdapterModule, ...]

    @property
    def parameters(self) -> int:
        """Weights at true ranks, summed over A and B."""
        return sum(module.rank * (module.a.shape[1] + module.b.shape[0]) for module in self.modules)

    @property
    def max_rank(self) -> int:
        return max(module.rank for module in self.modules)


class AdapterRef(msgspec.Struct, frozen=True):
    """An adapter as a request carries it: what it is, whose cache it may use, where to get it."""

    spec: AdapterSpec
    namespace: TenantNamespace
    url: str
    """A presigned GET of the safetensors file; the worker holds no store credentials."""
