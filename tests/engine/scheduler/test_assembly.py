"""A plan's grants become the rows that kernels expect."""

from typing import Any

import torch

from loraplex.engine.lora.layout import AdapterTables
from loraplex.engine.memory.geometry import PageGeometry
from loraplex.engine.memory.pool import PageId
from loraplex.engine.memory.residency import ResidentAdapter
from loraplex.engine.protocol.identity import Digest, TenantNamespace
from loraplex.engine.request import Request, new_request
from loraplex.engine.scheduler.accounts import TenantAccount
from loraplex.engine.scheduler.assembly import assemble
from loraplex.engine.scheduler.block_tables import BlockTables
from tests.engine.driving import greedy, request

TABLES = BlockTables()
GEOMETRY = PageGeometry(pages=50, layers=2, block_tokens=4, kv_heads=1, head_size=2)


def adapter(name: str, tiles: int, modules: tuple[int, ...]) -> ResidentAdapter:
    ranks = torch.zeros(14, dtype=torch.int32)
    ranks[list(modules)] = 3
    offsets = torch.full((14, tiles), 5)
    tables = AdapterTables(offsets, offsets + 1, ranks, torch.ones(14))
    return ResidentAdapter((TenantNamespace("t"), Digest(name)), [], tables, is_loading=False)


def running(name: str, prompt: list[int], computed: int, pages: list[int], of: Any) -> Request:
    account = TenantAccount(TenantNamespace("t"))
    made = new_request(request(name, prompt, greedy(5)), 0, account, 4, 100, chain=None)
    made.begin(TABLES.take_row(), [PageId(page) for page in pages])
    made.computed_tokens = computed
    made.adapter = of
    return made


def test_rows_of_an_adapter_lie_together_and_base_rows_come_first() -> None:
    one, other = adapter("one", 1, (0,)), adapter("other", 2, (11, 12))
    first = running("first", [11, 12, 13, 14, 15, 16], 3, [7, 9], one)
    base = running("base", [21, 22], 0, [30], None)
    second = running("second", [31, 32, 33, 34], 0, [40], other)
    third = running("third", [41], 0, [41], one)
    third.append(42)
    third.wanted_tokens, third.computed_tokens = 2, 1
    step = assemble({first: 3, base: 2, second: 2, third: 1}, GEOMETRY, 16, torch.device("cpu"))
    batch = step.batch
    assert step.requests == [base, first, third, second]
    assert batch.token_ids.tolist() == [21, 22, 14, 15, 16, 42, 31, 32]
    assert batch.positions.tolist() == [0, 1, 3, 4, 5, 1, 0, 1]
    assert batch.prompt_tokens.tolist() == [2, 2, 6, 6, 6, 1, 4, 4]
    assert batch.slots.tolist() == [240, 241, 59, 72, 73, 329, 320, 321]
    assert batch.block_tables.tolist() == [[30, 30], [7, 9], [41, 41], [40, 40]]
    assert batch.query_starts.tolist() == [0, 2, 5, 6, 8]
    assert batch.context_tokens.tolist() == [2, 6, 2, 2]
    # The second request has two tokens of its prompt left, so it samples nothing yet.
    assert step.sampled == [base, first, third]
    assert batch.sample_rows.tolist() == [1, 4, 5]
    assert batch.lora is not None
    assert batch.lora.segments.tolist() == [[2, 6, 0], [6, 8, 1]]
    assert batch.lora.a_offsets.shape == (2, 14, 2)
    assert batch.lora.a_offsets[0, 0].tolist() == [5, -1]
    # q of layer 0, and gate, up of layer 1; groups are qkv, output, gate and up, down.
    assert batch.lora.has_group == [True, False, False, False, False, False, True, False]


def test_a_step_without_adapters_has_no_lora() -> None:
    base = running("base", [21, 22], 0, [30], None)
    assert assemble({base: 2}, GEOMETRY, 16, torch.device("cpu")).batch.lora is None
