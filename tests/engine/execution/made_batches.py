"""Decode batches over a pool of random numbers, which serve as keys, values and adapters alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from hypothesis import strategies as st
from torch import Tensor

from loraplex.engine.kernels.ops import Backend, kernels
from loraplex.engine.lora.layout import AdapterTables, make_tables, plan_layout, tile_rank
from loraplex.engine.lora.modules import ModuleNumbers
from loraplex.engine.lora.segments import Segment, lora_batch
from loraplex.engine.memory.geometry import PageGeometry, fit_pages
from loraplex.engine.memory.pool import PagePool
from loraplex.engine.models.batch import Batch
from loraplex.engine.models.decoder import Decoder
from loraplex.engine.models.registry import read_decoder_config
from loraplex.engine.models.weights import open_weights
from loraplex.engine.protocol.adapter import AdapterModule, AdapterSpec, TensorRef
from loraplex.engine.protocol.identity import Digest
from loraplex.engine.protocol.module_table import ModuleTable
from tests.engine.tiny import VOCABULARY

BLOCK_TOKENS = 4
ADAPTER_PAGES = 60
SEQUENCE_BLOCKS = 4
MAX_ROWS = 12
RANKS = (1, 3, 8, 24)
HOST = torch.device("cpu")


@dataclass(frozen=True)
class Row:
    """One sequence: its tokens with this one, its token, and the number of its adapter, if any."""

    context: int
    token_id: int
    adapter: int | None


ROWS = st.lists(
    st.builds(
        Row,
        st.integers(1, BLOCK_TOKENS * SEQUENCE_BLOCKS),
        st.integers(0, VOCABULARY - 1),
        st.none() | st.integers(0, len(RANKS) - 1),
    ),
    min_size=1,
    max_size=MAX_ROWS,
)


class MadeModel:
    """A tiny model on the `reference` kernels, with a pool of random numbers."""

    def __init__(self, model_dir: Path, table: ModuleTable) -> None:
        config = read_decoder_config(model_dir)
        shape = config.shape
        page_bytes = shape.layers * BLOCK_TOKENS * 2 * shape.kv_heads * shape.head_size * 4
        self.geometry: PageGeometry = fit_pages(
            page_bytes * (ADAPTER_PAGES + MAX_ROWS * SEQUENCE_BLOCKS + 1),
            layers=shape.layers,
            block_tokens=BLOCK_TOKENS,
            kv_heads=shape.kv_heads,
            head_size=shape.head_size,
            dtype=torch.float32,
        )
        self.tile_rank = tile_rank(self.geometry.page_elements, ModuleNumbers(table).widest)
        with open_weights(model_dir) as weights:
            self.decoder = Decoder(
                config,
                weights,
                kernels(Backend.REFERENCE),
                block_tokens=BLOCK_TOKENS,
                dtype=torch.float32,
                device=HOST,
            )
        self.pool = PagePool(self.geometry.pages, self.geometry.page_elements, torch.float32, HOST)
        generator = torch.Generator().manual_seed(0)
        self.content = torch.randn(self.pool.data.shape, generator=generator) * 0.3
        self._adapters: list[AdapterTables] = []
        self._table = table

    def take_adapters(self) -> None:
        """Give the pool's first pages to adapters of several ranks."""
        pages = self.pool.take(ADAPTER_PAGES)
        numbers = ModuleNumbers(self._table)
        for number, rank in enumerate(RANKS):
            layout = plan_layout(
                _adapter(self._table, rank, number),
                numbers,
                self.geometry.page_elements,
                self.tile_rank,
            )
            own, pages = pages[: layout.pages], pages[layout.pages :]
            self._adapters.append(
                make_tables(layout, own, self.geometry.page_elements, numbers.count)
            )

    def batch(self, rows: Sequence[Row]) -> Batch:
        """A decode batch as assembly makes it, in any order of adapters."""
        contexts = torch.tensor([row.context for row in rows])
        positions = contexts - 1
        first = ADAPTER_PAGES + torch.arange(len(rows))[:, None] * SEQUENCE_BLOCKS
        tables = first + torch.arange(SEQUENCE_BLOCKS)
        page = tables.gather(1, (positions // BLOCK_TOKENS)[:, None])[:, 0]
        segments: list[Segment] = []
        for place, row in enumerate(rows):
            if row.adapter is None:
                continue
            adapter = self._adapters[row.adapter]
            if segments and segments[-1].adapter is adapter and segments[-1].end == place:
                segments[-1] = Segment(segments[-1].start, place + 1, adapter)
            else:
                segments.append(Segment(place, place + 1, adapter))
        return Batch(
            token_ids=torch.tensor([row.token_id for row in rows]),
            positions=positions,
            prompt_tokens=contexts.clamp(max=3),
            slots=page * self.geometry.page_rows + positions % BLOCK_TOKENS,
            block_tables=tables.to(torch.int32),
            query_starts=torch.arange(len(rows) + 1, dtype=torch.int32),
            context_tokens=contexts.to(torch.int32),
            sample_rows=torch.arange(len(rows)),
            lora=lora_batch(segments, self.tile_rank, HOST),
        )

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits of exactly this batch, and the pool after it."""
        pages = self.content.clone()
        with torch.inference_mode():
            return self.decoder.forward(batch, pages), pages


def _adapter(table: ModuleTable, rank: int, number: int) -> AdapterSpec:
    """On fewer linears the higher its number, so that groups and layers are absent."""
    modules = []
    for place, linear in enumerate(table.modules):
        if place % (number + 1):
            continue
        a = TensorRef("a", "F32", (rank, linear.in_features), place, place)
        b = TensorRef("b", "F32", (linear.out_features, rank), place, place)
        modules.append(
            AdapterModule(linear.path, linear.layer, linear.linear, rank, 0.5 + number, a, b)
        )
    name = f"sha256:{number}"
    return AdapterSpec(Digest(name), table.base_digest, Digest(name), 1, tuple(modules))
