"""write_kv in Triton's interpreter against the reference."""

import pytest
import torch

from loraplex.engine.kernels.ops import Backend, kernels

LAYERS, BLOCK_TOKENS = 3, 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("kv_heads", "head_size"), [(1, 64), (2, 80), (3, 256)])
@pytest.mark.parametrize("rows", [0, 1, 17])
def test_rows_go_to_their_slots_and_rows_without_one_nowhere(
    rows: int, kv_heads: int, head_size: int, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(rows)
    kv = torch.randn(rows, 2, kv_heads, head_size, generator=generator).to(dtype)
    pages_of_block = torch.randperm(9, generator=generator)
    slots = torch.stack(
        [pages_of_block * LAYERS * BLOCK_TOKENS + place for place in range(BLOCK_TOKENS)]
    ).flatten()[:rows]
    slots[2::5] = -1
    written = []
    for backend in (Backend.TRITON, Backend.REFERENCE):
        pages = torch.zeros(9, LAYERS * BLOCK_TOKENS * 2 * kv_heads * head_size, dtype=dtype)
        kernels(backend).write_kv(kv, pages, slots, 2, LAYERS, BLOCK_TOKENS)
        written.append(pages)
    assert torch.equal(*written)
    assert int((written[0] != 0).sum()) == int((kv[slots >= 0] != 0).sum())
