"""A plan's grants become the rows that kernels expect."""

import torch

from loraplex.engine.lora.layout import AdapterTables
from loraplex.engine.memory.geometry import PageGeometry
from loraplex.engine.memory.pool import PageId
from loraplex.engine.memory.residency import ResidentAdapter
from loraplex.engine.protocol.identity import Digest, TenantNamespace
from loraplex.engine.request import Request, new_request
from loraplex.engine.scheduler.accounts import TenantAccount
from loraplex.engine.scheduler.assembly import AssembledStep, assemble
from loraplex.engine.scheduler.rows import RunningRows
from tests.engine.driving import greedy, request

BLOCK_TOKENS = 4
GEOMETRY = PageGeometry(pages=50, layers=2, block_tokens=BLOCK_TOKENS, kv_heads=1, head_size=2)
CPU = torch.device("cpu")


def adapter(number: int, tiles: int, modules: tuple[int, ...]) -> ResidentAdapter:
    ranks = torch.zeros(14, dtype=torch.int32)
    ranks[list(modules)] = 3
    offsets = torch.full((14, tiles), 5)
    tables = AdapterTables(offsets, offsets + 1, ranks, torch.ones(14))
    key = (TenantNamespace("t"), Digest(f"{number}"))
    return ResidentAdapter(key, [], tables, number, is_loading=False)


class Running:
    """Requests that run, each of which computes what it is granted."""

    def __init__(self) -> None:
        self.rows = RunningRows(BLOCK_TOKENS)

    def start(
        self,
        prompt: list[int],
        pages: list[int],
        of: ResidentAdapter | None = None,
        *,
        output: tuple[int, ...] = (),
        computed: int = 0,
        granted: int,
    ) -> Request:
        account = TenantAccount(TenantNamespace("t"))
        made = new_request(request("r", prompt, greedy(5)), 0, account, 100, None, len(pages))
        made.adapter = of
        for token_id in output:
            made.append(token_id)
        made.begin(self.rows, [])
        made.add_pages([PageId(page) for page in pages])
        self.rows.computed[made.row] = computed
        self.rows.granted[made.row] = granted
        return made

    def assemble(self) -> AssembledStep:
        return assemble(self.rows, GEOMETRY, 16, CPU)


def test_rows_of_an_adapter_lie_together_and_base_rows_come_first() -> None:
    one, other = adapter(1, 1, (0,)), adapter(2, 2, (11, 12))
    running = Running()
    first = running.start([11, 12, 13, 14, 15, 16], [7, 9], one, computed=3, granted=3)
    base = running.start([21, 22], [30], granted=2)
    second = running.start([31, 32, 33, 34], [40], other, granted=2)
    third = running.start([41], [41], one, output=(42,), computed=1, granted=1)
    running.start([51, 52], [42], granted=0)
    step = running.assemble()
    batch = step.batch
    assert step.requests == [base, first, third, second]
    assert step.tokens.tolist() == [2, 3, 1, 2]
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
    running = Running()
    running.start([21, 22], [30], granted=2)
    assert running.assemble().batch.lora is None


def test_a_token_that_a_step_in_flight_samples_is_left_open() -> None:
    running = Running()
    ahead = running.start([11, 12], [7], granted=2)
    running.start([21, 22, 23], [8], granted=3)
    step = running.assemble()
    running.rows.begin(step.rows, step.tokens)
    running.rows.granted[:] = 0
    running.rows.granted[ahead.row] = 1
    assert running.assemble().unknown == [(0, ahead)]
    running.rows.settle(step.rows, step.tokens)
    running.rows.in_flight[step.rows] -= 1
    running.rows.accept(step.rows, [13, 24])
    step = running.assemble()
    assert (step.unknown, step.batch.token_ids.tolist()) == ([], [13])
