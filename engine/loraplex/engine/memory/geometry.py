"""How large a page is and how many the budget buys: a page is one block of KV of all layers."""

from dataclasses import dataclass

import torch

from loraplex.engine.memory.errors import PoolTooSmall


@dataclass(frozen=True)
class PageGeometry:
    """A page seen as KV: `[layers, block_tokens, 2 (key, value), kv_heads, head_size]`.

    All layers of a block lie in one page, so a request owns few pages and an adapter's tiles find
    pages of a useful size. `pages` is the whole pool.
    """

    pages: int
    layers: int
    block_tokens: int
    kv_heads: int
    head_size: int

    @property
    def token_elements(self) -> int:
        """Elements of one token in one layer."""
        return 2 * self.kv_heads * self.head_size

    @property
    def page_elements(self) -> int:
        return self.layers * self.block_tokens * self.token_elements

    @property
    def page_rows(self) -> int:
        """Rows of `token_elements` in a page: what one page adds to a row index."""
        return self.layers * self.block_tokens

    @property
    def pool_tokens(self) -> int:
        """Tokens of KV in a pool that holds no adapter."""
        return self.pages * self.block_tokens

    def blocks_of(self, tokens: int) -> int:
        """Pages that hold the KV of so many tokens of one request."""
        return -(-tokens // self.block_tokens)


def fit_pages(
    pool_bytes: int,
    *,
    layers: int,
    block_tokens: int,
    kv_heads: int,
    head_size: int,
    dtype: torch.dtype,
) -> PageGeometry:
    """The geometry of a pool of at most `pool_bytes`; raises PoolTooSmall below two pages."""
    page_bytes = layers * block_tokens * 2 * kv_heads * head_size * dtype.itemsize
    pages = pool_bytes // page_bytes
    if pages < 2:
        raise PoolTooSmall(
            f"A pool of {pool_bytes} bytes holds {pages} pages of {page_bytes} bytes; "
            "at least 2 are needed.",
            field="pool_bytes",
            rule=f"at least {2 * page_bytes}",
            value=pool_bytes,
        )
    return PageGeometry(pages, layers, block_tokens, kv_heads, head_size)
