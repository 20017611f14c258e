"""One start of a kernel, as a value: what runs on a device can be compiled or read without one."""

from dataclasses import dataclass
from typing import Any, Final

import torch
import triton
import triton.language as tl

IS_INTERPRETED: Final[bool] = bool(triton.knobs.runtime.interpret)
"""Whether kernels run in Triton's interpreter, on a CPU (TRITON_INTERPRET)."""

VECTOR_BYTES: Final = 16
"""The widest load of one thread."""


@dataclass(frozen=True)
class Launch:
    """`arguments` by the kernel's own names; `warps` and `stages` are Triton's.

    `registers` is the most a thread may have. Where it is None, the assembler weighs registers
    against programs side by side, and may move a value to memory for one program more.
    """

    kernel: Any
    grid: tuple[int, int, int]
    arguments: dict[str, Any]
    warps: int
    stages: int
    registers: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        """What the compiler is told beside the arguments."""
        return {
            "num_warps": self.warps,
            "num_stages": self.stages,
            "maxnreg": self.registers,
            "enable_fp_fusion": True,
        }

    def run(self) -> None:
        """Hand the kernel to the device; an empty grid is no launch."""
        if all(self.grid):
            self.kernel[self.grid](**self.arguments, **self.options)


def compute_dtype(storage: torch.dtype) -> Any:
    """What a product of stored numbers is taken in; sums are always float32.

    The interpreter's arithmetic on bfloat16 is wrong, so there these are widened when loaded.
    """
    if storage == torch.bfloat16:
        return tl.float32 if IS_INTERPRETED else tl.bfloat16
    return {torch.float16: tl.float16, torch.float32: tl.float32}[storage]


def vector_elements(storage: torch.dtype) -> int:
    """Elements in the widest load."""
    return VECTOR_BYTES // storage.itemsize


def power_of_two(count: int) -> int:
    """The least power of two that is not below `count`."""
    return 1 << (count - 1).bit_length()
