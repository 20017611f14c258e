"""The pages themselves and who may take them. Knows neither requests nor adapters."""

from collections.abc import Iterable
from typing import NewType

import torch
from torch import Tensor

from loraplex.engine.kernels.huge_pages import huge

PageId = NewType("PageId", int)


class PagePool:
    """`data` is `[pages, page_elements]`; a page is free or has exactly one owner.

    Memory is touched only when a page is first written, and the page given back last is handed
    out first: resident memory follows the most pages ever in use, not the budget.
    """

    def __init__(
        self, pages: int, page_elements: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.pages = pages
        self.page_elements = page_elements
        self.data = _untouched(pages, page_elements, dtype, device)
        self._free = [PageId(page) for page in range(pages - 1, -1, -1)]
        self._is_free = bytearray(b"\x01" * pages)

    @property
    def free_pages(self) -> int:
        return len(self._free)

    def take(self, count: int) -> list[PageId]:
        """Hand out pages; the caller has made sure that there are enough."""
        assert count <= len(self._free), f"{count} pages asked for, {len(self._free)} free"
        taken = [self._free.pop() for _ in range(count)]
        for page in taken:
            self._is_free[page] = 0
        return taken

    def give_back(self, pages: Iterable[PageId]) -> None:
        for page in pages:
            assert not self._is_free[page], f"page {page} was given back twice"
            self._is_free[page] = 1
            self._free.append(page)

    def clear(self, pages: Iterable[PageId]) -> None:
        """Fill pages with zeros.

        Attention multiplies what lies behind a sequence's end by a probability of 0, which
        is only harmless for finite numbers: a page must not bring the last owner's NaN along.
        """
        for page in pages:
            self.data[page].zero_()

    def check(self, owned: Iterable[PageId]) -> None:
        """Assert that free pages and `owned` together are the pool, no page twice."""
        owned_pages = list(owned)
        everything = sorted([*self._free, *owned_pages])
        assert everything == list(range(self.pages)), (
            f"{len(self._free)} free and {len(owned_pages)} owned pages are not the pool's "
            f"{self.pages}, each once"
        )
        assert all(self._is_free[page] for page in self._free)
        assert not any(self._is_free[page] for page in owned_pages)


def _untouched(pages: int, page_elements: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    if device.type != "cpu":
        return torch.zeros(pages, page_elements, dtype=dtype, device=device)
    # torch.zeros would write all of it.
    return huge(pages * page_elements, dtype).view(pages, page_elements)
