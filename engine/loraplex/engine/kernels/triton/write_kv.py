"""write_kv: a program copies a part of a row to its slot; below 0 there is no slot."""

from typing import Final

import triton
import triton.language as tl
from torch import Tensor

from loraplex.engine.kernels.triton.launch import Launch, power_of_two

_ELEMENTS_LIMIT: Final = 1024


@triton.jit
def write_kv_kernel(
    kv,
    pages,
    slots,
    first_row,
    kv_row,
    ELEMENTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + row)
    if slot < 0:
        return
    elements = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_element = elements < ELEMENTS
    value = tl.load(kv + row * kv_row + elements, mask=is_element)
    target = pages + (slot + first_row) * ELEMENTS + elements
    tl.store(target, value.to(pages.dtype.element_ty), mask=is_element)


def write_kv_launches(
    kv: Tensor, pages: Tensor, slots: Tensor, layer: int, layers: int, block_tokens: int
) -> tuple[list[Launch], None]:
    rows = kv.shape[0]
    elements = pages.shape[1] // (layers * block_tokens)
    block = min(power_of_two(elements), _ELEMENTS_LIMIT)
    assert kv[0].is_contiguous() if rows else True
    launch = Launch(
        write_kv_kernel,
        (rows, -(-elements // block), 1),
        {
            "kv": kv,
            "pages": pages,
            "slots": slots,
            "first_row": layer * block_tokens,
            "kv_row": kv.stride(0),
            "ELEMENTS": elements,
            "BLOCK": block,
        },
        warps=4,
        stages=1,
    )
    return [launch], None
