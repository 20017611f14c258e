"""Compiles a launch as it would be when run, for a GPU that is not there; reads what came out."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from loraplex.engine.kernels.triton.launch import Launch

SHARED_LIMITS: Final = {80: 163 * 1024, 90: 227 * 1024, 100: 227 * 1024}
"""Bytes of shared memory that a program may have, by compute capability."""

_TYPES: Final = {
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.int32: "i32",
    torch.int64: "i64",
}
_CUOBJDUMP: Final = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"


@dataclass(frozen=True)
class Usage:
    """`spilled_bytes`: what a thread keeps in memory for want of registers."""

    registers: int
    spilled_bytes: int
    shared_bytes: int


def compile_ahead(launch: Launch, capability: int, folder: Path) -> Usage:
    """Compile and disassemble; `folder` takes the binary."""
    signature, constants, attributes = _specialised(launch)
    compiled = triton.compile(
        ASTSource(launch.kernel, signature, constants, attributes),
        target=GPUTarget("cuda", capability, 32),
        options=launch.options,
    )
    binary = folder / "kernel.cubin"
    binary.write_bytes(compiled.asm["cubin"])
    dump = subprocess.run(
        [_CUOBJDUMP, "--dump-resource-usage", binary], capture_output=True, text=True, check=True
    ).stdout
    numbers = {name: int(value) for name, value in re.findall(r"(\w+):(\d+)", dump)}
    return Usage(
        registers=numbers["REG"],
        spilled_bytes=numbers["STACK"] + numbers["LOCAL"],
        shared_bytes=numbers["SHARED"] + compiled.metadata.shared,
    )


def _specialised(launch: Launch) -> tuple[dict[str, str], dict[Any, Any], dict[Any, Any]]:
    """Signature, constants and attributes as Triton derives them from a launch's arguments."""
    signature, constants, attributes = {}, {}, {}
    for parameter in launch.kernel.params:
        value = launch.arguments[parameter.name]
        is_one = isinstance(value, int) and value == 1 and not parameter.do_not_specialize
        if parameter.is_constexpr or is_one:
            signature[parameter.name] = "constexpr"
            constants[(parameter.num,)] = value
            continue
        if isinstance(value, Tensor):
            signature[parameter.name] = "*" + _TYPES[value.dtype]
            is_aligned = True
        elif isinstance(value, float):
            signature[parameter.name] = "fp32"
            is_aligned = False
        else:
            signature[parameter.name] = "i32" if value < 2**31 else "i64"
            is_aligned = value % 16 == 0 and not parameter.do_not_specialize
        if is_aligned:
            attributes[(parameter.num,)] = [["tt.divisibility", 16]]
    return signature, constants, attributes
