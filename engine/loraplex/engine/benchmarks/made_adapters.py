"""Random adapters by the thousand, for benchmarks that need the work and not the words.

All of a rank share one file under digests of their own: to the engine they are as many adapters,
and thousands of them need neither gigabytes on the disk nor minutes to make.
"""

import json
from pathlib import Path
from typing import Final

import msgspec
import torch
from safetensors.torch import save_file

from loraplex.engine.benchmarks.local_adapters import NAMESPACE
from loraplex.engine.protocol.adapter import AdapterModule, AdapterRef, AdapterSpec, TensorRef
from loraplex.engine.protocol.identity import TenantNamespace, digest_of_bytes, digest_of_file
from loraplex.engine.protocol.module_table import ModuleTable

_DEVIATION: Final = 0.02
_LENGTH_BYTES: Final = 8
"""A safetensors file begins with the length of its JSON header, little-endian."""


def made_adapters(
    folder: Path,
    table: ModuleTable,
    *,
    rank: int,
    count: int,
    namespace: TenantNamespace = NAMESPACE,
) -> list[AdapterRef]:
    """So many float32 adapters on every linear of the base; their file is written to `folder`."""
    file = folder / f"rank{rank}.safetensors"
    chance = torch.Generator().manual_seed(rank)
    tensors = {}
    for linear in table.modules:
        for side, shape in (
            ("A", (rank, linear.in_features)),
            ("B", (linear.out_features, rank)),
        ):
            tensors[_name(linear.path, side)] = torch.randn(shape, generator=chance) * _DEVIATION
    save_file(tensors, file)
    refs = _tensor_refs(file)
    spec = AdapterSpec(
        digest=digest_of_bytes(b""),
        base_digest=table.base_digest,
        weights_digest=digest_of_file(file),
        weights_bytes=file.stat().st_size,
        modules=tuple(
            AdapterModule(
                path=linear.path,
                layer=linear.layer,
                linear=linear.linear,
                rank=rank,
                scale=2.0,
                a=refs[_name(linear.path, "A")],
                b=refs[_name(linear.path, "B")],
            )
            for linear in table.modules
        ),
    )
    return [
        AdapterRef(
            spec=msgspec.structs.replace(spec, digest=digest_of_bytes(f"{rank}:{one}".encode())),
            namespace=namespace,
            url=str(file),
        )
        for one in range(count)
    ]


def _name(path: str, side: str) -> str:
    return f"base_model.model.{path}.lora_{side}.weight"


def _tensor_refs(file: Path) -> dict[str, TensorRef]:
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(_LENGTH_BYTES), "little")
        header = json.loads(opened.read(length))
    begin = _LENGTH_BYTES + length
    return {
        name: TensorRef(
            name=name,
            dtype=entry["dtype"],
            shape=tuple(entry["shape"]),
            start=begin + entry["data_offsets"][0],
            end=begin + entry["data_offsets"][1],
        )
        for name, entry in header.items()
        if name != "__metadata__"
    }
