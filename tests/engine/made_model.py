"""A model of any size, made of random numbers where it runs: no file, no download, no oracle."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from loraplex.engine.kernels.ops import Backend, kernels
from loraplex.engine.lora.layout import AdapterTables, make_tables, plan_layout, tile_rank
from loraplex.engine.lora.modules import ModuleNumbers
from loraplex.engine.lora.segments import Segment, lora_batch
from loraplex.engine.memory.geometry import PageGeometry, fit_pages
from loraplex.engine.memory.pool import PageId, PagePool
from loraplex.engine.models.batch import Batch
from loraplex.engine.models.decoder import Decoder
from loraplex.engine.models.decoder_config import DecoderConfig
from loraplex.engine.models.registry import read_decoder_config
from loraplex.engine.models.weights import ModelWeights
from loraplex.engine.protocol.adapter import AdapterModule, AdapterSpec, TensorRef
from loraplex.engine.protocol.identity import Digest
from loraplex.engine.protocol.model_tensors import linears
from loraplex.engine.protocol.module_table import ModuleTable

HOST = torch.device("cpu")


@dataclass(frozen=True)
class Sizes:
    layers: int = 2
    hidden: int = 32
    intermediate: int = 48
    heads: int = 4
    kv_heads: int = 2
    vocabulary: int = 96
    max_tokens: int = 64
    block_tokens: int = 4

    def config(self) -> DecoderConfig:
        values = {
            "architectures": ["LlamaForCausalLM"],
            "num_hidden_layers": self.layers,
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": self.max_tokens,
            "tie_word_embeddings": True,
            "rms_norm_eps": 1e-5,
        }
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "config.json").write_text(json.dumps(values))
            return read_decoder_config(Path(folder))


class _MadeWeights(ModelWeights):
    """Each tensor is made when it is read; the same numbers on every device and in every run."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__({})
        shape = config.shape
        self._generator = torch.Generator()
        self._shapes: dict[str, tuple[int, ...]] = {
            f"{linear.path}.weight": (linear.out_features, linear.in_features)
            for linear in linears(shape)
        }
        self._shapes["model.embed_tokens.weight"] = (shape.vocabulary_size, shape.hidden_size)

    def __contains__(self, name: str) -> bool:
        return True

    def read(self, name: str) -> Tensor:
        shape = self._shapes.get(name)
        if shape is None:
            return torch.ones(self._shapes["model.embed_tokens.weight"][1])
        # Rows are few numbers repeated: a large model is made in seconds.
        self._generator.manual_seed(sum(name.encode()))
        numbers = torch.randn(2**20 + 7, generator=self._generator)
        count = shape[0] * shape[1]
        repeated = numbers.repeat(-(-count // len(numbers)))[:count]
        weight: Tensor = (repeated / shape[1] ** 0.5).to(torch.bfloat16)
        return weight.view(shape)


@dataclass(frozen=True)
class Row:
    """One decoding sequence: its tokens with this one, its token, and its adapter, if any."""

    context: int
    token_id: int
    adapter: int | None


class MadeModel:
    """The model, its pool, and adapters that take their weights from the pool's random numbers."""

    def __init__(
        self,
        sizes: Sizes,
        pages: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device = HOST,
        backend: Backend | None = None,
    ) -> None:
        config = sizes.config()
        shape = config.shape
        self.sizes = sizes
        page_bytes = (
            shape.layers * sizes.block_tokens * 2 * shape.kv_heads * shape.head_size
        ) * dtype.itemsize
        self.geometry: PageGeometry = fit_pages(
            page_bytes * pages,
            layers=shape.layers,
            block_tokens=sizes.block_tokens,
            kv_heads=shape.kv_heads,
            head_size=shape.head_size,
            dtype=dtype,
        )
        self.table = ModuleTable(
            base_name="made",
            base_digest=Digest("sha256:made"),
            architecture=shape.architecture,
            layers=shape.layers,
            hidden_size=shape.hidden_size,
            vocabulary_size=shape.vocabulary_size,
            max_model_tokens=shape.max_model_tokens,
            eos_token_ids=(),
            modules=tuple(linears(shape)),
        )
        self.numbers = ModuleNumbers(self.table)
        self.tile_rank = tile_rank(self.geometry.page_elements, self.numbers.widest)
        self.decoder = Decoder(
            config,
            _MadeWeights(config),
            kernels(backend),
            block_tokens=sizes.block_tokens,
            dtype=dtype,
            device=device,
        )
        self.pool = PagePool(pages, self.geometry.page_elements, dtype, device)
        self.adapters: list[AdapterTables] = []

    def add_adapter(self, rank: int, every: int = 1) -> None:
        """An adapter on every so many linears; whole groups and layers may be absent."""
        number = len(self.adapters)
        spec = _spec(self.table, rank, every, number)
        layout = plan_layout(spec, self.numbers, self.geometry.page_elements, self.tile_rank)
        pages = self.pool.take(layout.pages)
        self.adapters.append(
            make_tables(layout, pages, self.geometry.page_elements, self.numbers.count)
        )

    def decode_batch(self, rows: Sequence[Row], pages: Sequence[PageId]) -> Batch:
        """Each row's sequence owns its share of `pages`; on the host, as assembly makes it."""
        contexts = torch.tensor([row.context for row in rows])
        tables = torch.tensor(pages).view(len(rows), -1)
        positions = contexts - 1
        page = tables.gather(1, (positions // self.sizes.block_tokens)[:, None])[:, 0]
        slots = page * self.geometry.page_rows + positions % self.sizes.block_tokens
        return Batch(
            token_ids=torch.tensor([row.token_id for row in rows]),
            positions=positions,
            prompt_tokens=contexts.clamp(max=3),
            slots=slots,
            block_tables=tables.to(torch.int32),
            query_starts=torch.arange(len(rows) + 1, dtype=torch.int32),
            context_tokens=contexts.to(torch.int32),
            sample_rows=torch.arange(len(rows)),
            lora=lora_batch(self._segments([row.adapter for row in rows]), self.tile_rank, HOST),
        )

    def chunk_batch(self, tokens: int, adapter: int | None, pages: Sequence[PageId]) -> Batch:
        """One sequence's prompt, all at once."""
        table = torch.tensor(pages)[None]
        positions = torch.arange(tokens)
        block, place = positions // self.sizes.block_tokens, positions % self.sizes.block_tokens
        segments = self._segments([adapter] * tokens)
        return Batch(
            token_ids=positions * 7 % self.sizes.vocabulary,
            positions=positions,
            prompt_tokens=torch.full((tokens,), tokens),
            slots=table[0, block] * self.geometry.page_rows + place,
            block_tables=table.to(torch.int32),
            query_starts=torch.tensor([0, tokens], dtype=torch.int32),
            context_tokens=torch.tensor([tokens], dtype=torch.int32),
            sample_rows=torch.tensor([tokens - 1]),
            lora=lora_batch(segments, self.tile_rank, HOST),
        )

    def _segments(self, adapters: Sequence[int | None]) -> list[Segment]:
        segments: list[Segment] = []
        for place, number in enumerate(adapters):
            if number is None:
                continue
            adapter = self.adapters[number]
            if segments and segments[-1].adapter is adapter and segments[-1].end == place:
                segments[-1] = Segment(segments[-1].start, place + 1, adapter)
            else:
                segments.append(Segment(place, place + 1, adapter))
        return segments


def on_device(batch: Batch, device: torch.device) -> Batch:
    """The batch as kernels of the device read it."""
    moved = {name: getattr(batch, name).to(device) for name in _TENSORS}
    lora = batch.lora
    if lora is not None:
        lora = replace(lora, **{name: getattr(lora, name).to(device) for name in _LORA_TENSORS})
    return replace(batch, lora=lora, **moved)


_TENSORS = (
    "token_ids",
    "positions",
    "prompt_tokens",
    "slots",
    "block_tables",
    "query_starts",
    "context_tokens",
    "sample_rows",
)
_LORA_TENSORS = ("segments", "a_offsets", "b_offsets", "ranks", "scales")


def _spec(table: ModuleTable, rank: int, every: int, number: int) -> AdapterSpec:
    modules = []
    for place, linear in enumerate(table.modules):
        if place % every:
            continue
        a = TensorRef("a", "F32", (rank, linear.in_features), place, place)
        b = TensorRef("b", "F32", (linear.out_features, rank), place, place)
        scale = 0.5 + number % 3
        modules.append(AdapterModule(linear.path, linear.layer, linear.linear, rank, scale, a, b))
    name = f"sha256:{number}"
    return AdapterSpec(Digest(name), table.base_digest, Digest(name), 1, tuple(modules))
