"""Adapter files of any ranks and dtype for a base of three kinds of linears, without PEFT."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal

import torch
from torch import Tensor

from loraplex.engine.lora.layout import make_tables, plan_layout, tile_rank
from loraplex.engine.lora.modules import LINEARS, ModuleNumbers
from loraplex.engine.lora.packing import AdapterFile
from loraplex.engine.memory.pool import PageId
from loraplex.engine.protocol.adapter import AdapterModule, AdapterSpec, TensorRef
from loraplex.engine.protocol.identity import Digest, digest_of_bytes
from loraplex.engine.protocol.module_table import LinearModule, ModuleTable

BASE: Final = Digest("sha256:base")
FEATURES: Final = {"q_proj": (12, 20), "k_proj": (12, 8), "down_proj": (30, 12)}
PAGE_ELEMENTS: Final = 300
LAYERS: Final = 2
MODULES: Final = LAYERS * len(LINEARS)

TABLE: Final = ModuleTable(
    base_name="tiny",
    base_digest=BASE,
    architecture="LlamaForCausalLM",
    layers=LAYERS,
    hidden_size=12,
    vocabulary_size=10,
    max_model_tokens=10,
    eos_token_ids=(),
    modules=tuple(
        LinearModule(f"model.layers.{layer}.{name}", layer, name, *FEATURES[name])
        for layer in range(LAYERS)
        for name in FEATURES
    ),
)
PATHS: Final = sorted(TABLE.by_path())
NUMBERS: Final = ModuleNumbers(TABLE)
TILE_RANK: Final = tile_rank(PAGE_ELEMENTS, NUMBERS.widest)

_NAMES: Final[dict[torch.dtype, Literal["F32", "F16", "BF16"]]] = {
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
}


def module_number(path: str) -> int:
    linear = TABLE.by_path()[path]
    return linear.layer * len(LINEARS) + LINEARS.index(linear.linear)


def random_tensors(ranks: dict[str, int], dtype: torch.dtype) -> dict[str, tuple[Tensor, Tensor]]:
    """A `[rank, in]` and B `[out, rank]` by module."""
    generator = torch.Generator().manual_seed(sum(ranks.values()))
    tensors = {}
    for path, rank in ranks.items():
        linear = TABLE.by_path()[path]
        a = torch.randn(rank, linear.in_features, generator=generator).to(dtype)
        b = torch.randn(linear.out_features, rank, generator=generator).to(dtype)
        tensors[path] = (a, b)
    return tensors


@contextmanager
def adapter_file(
    tensors: dict[str, tuple[Tensor, Tensor]],
    *,
    digest: str = "sha256:a",
    shift_bytes: int = 0,
    extra_bytes: int = 0,
) -> Iterator[AdapterFile]:
    """A file of the tensors one behind the other, with its layout; gone when left.

    The spec says that tensors begin `shift_bytes` later and are `extra_bytes` longer than is true.
    """
    data = bytearray(b"header")
    modules = []
    for path, pair in tensors.items():
        refs = []
        for tensor in pair:
            start = len(data) + shift_bytes
            data += tensor.contiguous().view(torch.uint8).numpy().tobytes()
            rows, columns = tensor.shape
            end = len(data) + shift_bytes + extra_bytes
            refs.append(TensorRef(path, _NAMES[tensor.dtype], (rows, columns), start, end))
        linear = TABLE.by_path()[path]
        rank = len(pair[0])
        modules.append(AdapterModule(path, linear.layer, linear.linear, rank, 0.5, *refs))
    spec = AdapterSpec(
        Digest(digest), BASE, digest_of_bytes(bytes(data)), len(data), tuple(modules)
    )
    with tempfile.TemporaryDirectory() as folder:
        path_of_file = Path(folder, "adapter_model.safetensors")
        path_of_file.write_bytes(data)
        layout = plan_layout(spec, NUMBERS, PAGE_ELEMENTS, TILE_RANK)
        yield AdapterFile(spec, layout, path_of_file)


def unpacked(
    file: AdapterFile, pool: Tensor, pages: Sequence[PageId] | None = None
) -> dict[str, tuple[Tensor, Tensor]]:
    """A and B by module, read back from `[pages, page_elements]` the way kernels find them."""
    pages = pages or [PageId(page) for page in range(file.layout.pages)]
    tables = make_tables(file.layout, pages, PAGE_ELEMENTS, MODULES)
    elements = pool.flatten()
    found = {}
    for module in file.spec.modules:
        number = module_number(module.path)
        rows: list[Tensor] = []
        for offsets, width in (
            (tables.a_offsets, module.a.shape[1]),
            (tables.b_offsets, module.b.shape[0]),
        ):
            borders = [*range(0, module.rank, TILE_RANK), module.rank]
            tiles = [
                elements[start : start + (last - first) * width].view(-1, width)
                for (first, last), start in zip(
                    pairwise(borders), offsets[number].tolist(), strict=False
                )
            ]
            rows.append(torch.cat(tiles))
        found[module.path] = (rows[0], rows[1].T)
    return found
