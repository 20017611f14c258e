"""The ops between the linears, each in one pass: on a CPU in C++, elsewhere composed of torch's.

Like the punica ops they are torch custom ops, so that a device may bring its own.
"""

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import rms_norm, silu

import loraplex.engine.kernels.ops  # noqa: F401  (defines the library and write_kv)
from loraplex.engine.kernels.native import fused as native

SCHEMAS: Final = {
    "add_norm": "(Tensor(a!) hidden, Tensor? delta, Tensor weight, float epsilon) -> Tensor",
    "rotate_and_write_kv": (
        "(Tensor qkv, Tensor cosine, Tensor sine, Tensor? norm, float epsilon, Tensor(a!) pages,"
        " Tensor slots, int heads, int kv_heads, int layer, int layers, int block_tokens) -> Tensor"
    ),
    "gate": "(Tensor gate_up) -> Tensor",
}
"""add_norm: hidden += delta, where there is one; returns hidden's RMS norm times weight.

    hidden, delta  [rows, hidden_size];  weight [hidden_size]

rotate_and_write_kv: norms queries and keys head by head where the model does, rotates them, and
writes keys and values to their slots (see write_kv).

    qkv            [rows, (heads + 2 * kv_heads) * head_size]  queries, keys, values
    cosine, sine   [rows, head_size / 2]
    norm           [heads + kv_heads, head_size] or None
    returns        [rows, heads, head_size]  the queries

gate: silu of the left half times the right half.

    gate_up        [rows, 2 * intermediate_size]
"""


def _add_norm(hidden: Tensor, delta: Tensor | None, weight: Tensor, epsilon: float) -> Tensor:
    if delta is not None:
        hidden += delta
    return rms_norm(hidden, hidden.shape[-1:], weight, epsilon)


def _rotate_and_write_kv(
    qkv: Tensor,
    cosine: Tensor,
    sine: Tensor,
    norm: Tensor | None,
    epsilon: float,
    pages: Tensor,
    slots: Tensor,
    heads: int,
    kv_heads: int,
    layer: int,
    layers: int,
    block_tokens: int,
) -> Tensor:
    qkv = qkv.view(qkv.shape[0], heads + 2 * kv_heads, -1)
    qk = qkv[:, : heads + kv_heads]
    if norm is not None:
        qk = rms_norm(qk, qk.shape[-1:], None, epsilon) * norm
    qk = _rotate(qk, cosine, sine)
    kv = torch.stack((qk[:, heads:], qkv[:, heads + kv_heads :]), dim=1)
    torch.ops.loraplex.write_kv(kv, pages, slots, layer, layers, block_tokens)
    return qk[:, :heads].contiguous()


def _rotate(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate `[rows, heads, head_size]`, the first half of a head against the second."""
    half = heads.shape[-1] // 2
    first, second = heads[..., :half], heads[..., half:]
    cosine, sine = cosine[:, None], sine[:, None]
    rotated = torch.empty_like(heads, memory_format=torch.contiguous_format)
    torch.mul(first, cosine, out=rotated[..., :half]).addcmul_(second, sine, value=-1)
    torch.mul(second, cosine, out=rotated[..., half:]).addcmul_(first, sine)
    return rotated


def _gate(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return silu(gate) * up


COMPOSED: Final[dict[str, Callable[..., Any]]] = {
    "add_norm": _add_norm,
    "rotate_and_write_kv": _rotate_and_write_kv,
    "gate": _gate,
}

_SHAPES: Final[dict[str, Callable[..., Any]]] = {
    "add_norm": lambda hidden, *_: torch.empty_like(hidden),
    "rotate_and_write_kv": lambda qkv, cosine, *rest: qkv.new_empty(
        (qkv.shape[0], rest[5], 2 * cosine.shape[1])
    ),
    "gate": lambda gate_up: gate_up.new_empty((gate_up.shape[0], gate_up.shape[1] // 2)),
}


def _on_cpu(name: str) -> Callable[..., Any]:
    composed, compiled = COMPOSED[name], getattr(native, name)

    def run(*arguments: Any) -> Any:
        return (compiled if native.can(name, *arguments) else composed)(*arguments)

    return run


_library = torch.library.Library("loraplex", "FRAGMENT")  # type: ignore[no-untyped-call]
for _name, _schema in SCHEMAS.items():
    _library.define(_name + _schema)  # type: ignore[no-untyped-call]
    _library.impl(_name, COMPOSED[_name], "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    _library.impl(_name, _on_cpu(_name), "CPU")  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"loraplex::{_name}", _SHAPES[_name], lib=_library)

add_norm: Final = torch.ops.loraplex.add_norm.default
rotate_and_write_kv: Final = torch.ops.loraplex.rotate_and_write_kv.default
gate: Final = torch.ops.loraplex.gate.default
