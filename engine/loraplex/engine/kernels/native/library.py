"""The compiled kernels as functions of tensors, by ctypes: no build against torch's headers."""

import ctypes
from ctypes import POINTER, Structure, c_float, c_long, c_void_p
from functools import cache
from typing import Final

from torch import Tensor

from loraplex.engine.kernels.native.build import compiled

MOST_HEAD_SIZE: Final = 256
"""The widest head the attention kernel has room for."""

COLUMNS: Final = 24
"""Output columns of a panel of a packed weight."""


class SgmvTables(Structure):
    _fields_ = (
        ("offsets", c_void_p),
        ("offset_adapter", c_long),
        ("offset_slice", c_long),
        ("ranks", c_void_p),
        ("rank_adapter", c_long),
        ("rank_slice", c_long),
        ("slices", c_long),
        ("tile_rank", c_long),
    )

    @classmethod
    def of(cls, offsets: Tensor, ranks: Tensor, tile_rank: int) -> "SgmvTables":
        return cls(
            offsets.data_ptr(),
            offsets.stride(0),
            offsets.stride(1),
            ranks.data_ptr(),
            ranks.stride(0),
            ranks.stride(1),
            offsets.shape[1],
            tile_rank,
        )


class AttentionShape(Structure):
    _fields_ = (
        ("heads", c_long),
        ("kv_heads", c_long),
        ("head_size", c_long),
        ("layer", c_long),
        ("layers", c_long),
        ("block_tokens", c_long),
        ("window", c_long),
        ("scale", c_float),
    )


class Rotation(Structure):
    _fields_ = (
        ("heads", c_long),
        ("kv_heads", c_long),
        ("head_size", c_long),
        ("page_row", c_long),
        ("epsilon", c_float),
    )


class Weights(Structure):
    """A packed weight; whoever makes it keeps the panels."""

    _fields_ = (
        ("panels", c_void_p),
        ("is_bfloat16", c_long),
        ("in_features", c_long),
        ("out_features", c_long),
    )


class Adapters(Structure):
    """A step's adapters; whoever makes it keeps the tensors it points into."""

    _fields_ = (
        ("pages", c_void_p),
        ("a_offsets", c_void_p),
        ("b_offsets", c_void_p),
        ("ranks", c_void_p),
        ("scales", c_void_p),
        ("segments", c_void_p),
        ("segment_count", c_long),
        ("modules", c_long),
        ("tiles", c_long),
        ("tile_rank", c_long),
    )


class Library:
    """The C++ functions; callers have checked shapes, dtypes and strides."""

    def __init__(self, path: str) -> None:
        # Global symbols come first, so the kernels share the thread pool that torch has loaded.
        library = ctypes.CDLL(path)
        self.linear = library.loraplex_linear
        # Called most often, so what does not change from call to call comes by one address.
        product = (c_void_p, c_void_p, c_long, c_long, c_void_p, c_void_p)
        self.linear.argtypes = product
        self.adapted_linear = library.loraplex_adapted_linear
        self.adapted_linear.argtypes = (*product, c_void_p, c_long, c_long, c_void_p)
        self.shrink = library.loraplex_shrink
        self.shrink.argtypes = (
            *(c_void_p, c_long, c_long, c_void_p, POINTER(SgmvTables), c_void_p, c_long),
            *(c_void_p, c_long, c_long),
        )
        self.expand = library.loraplex_expand
        self.expand.argtypes = (
            *(c_void_p, c_long, c_void_p, c_long, c_long, c_void_p, POINTER(SgmvTables)),
            *(c_void_p, c_long, c_long, c_void_p, c_long, POINTER(c_long)),
        )
        self.attention = library.loraplex_attention
        self.attention.argtypes = (
            *(c_void_p, c_void_p, c_void_p, c_long, c_void_p, c_void_p, c_long),
            *(POINTER(AttentionShape), c_void_p),
        )
        self.add_norm = library.loraplex_add_norm
        self.add_norm.argtypes = (c_void_p, c_void_p, c_void_p, c_float, c_void_p, c_long, c_long)
        self.rotate_and_write = library.loraplex_rotate_and_write
        self.rotate_and_write.argtypes = (
            *(c_void_p, c_void_p, c_void_p, c_void_p, POINTER(Rotation)),
            *(c_void_p, c_void_p, c_void_p, c_long),
        )
        self.gate = library.loraplex_gate
        self.gate.argtypes = (c_void_p, c_void_p, c_long, c_long)
        self.pack = library.loraplex_pack
        self.pack.argtypes = (c_void_p, c_void_p, c_long, c_long)
        for function in (
            *(self.linear, self.adapted_linear, self.shrink, self.expand, self.attention),
            *(self.add_norm, self.rotate_and_write, self.gate, self.pack),
        ):
            function.restype = None


@cache
def library() -> Library | None:
    """Compiled at the first call, in seconds; None where there is no compiler."""
    path = compiled()
    return None if path is None else Library(str(path))
