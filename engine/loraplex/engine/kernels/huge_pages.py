"""Host memory that the processor maps in large pages, where the system lets it."""

import mmap
from contextlib import suppress

import torch
from torch import Tensor


def huge(elements: int, dtype: torch.dtype) -> Tensor:
    """Zeros on the CPU, untouched until they are written.

    Whoever streams through hundreds of megabytes a step otherwise waits for page tables: on an
    EPYC virtual machine two threads read 11 GB/s from small pages and 14 from large ones.
    """
    # Private, since the system gives large pages to shared memory by another rule.
    memory = mmap.mmap(
        -1, max(1, elements * dtype.itemsize), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    )
    # Linux only, and a system may be set up without them.
    with suppress(AttributeError, OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=dtype, count=elements)
