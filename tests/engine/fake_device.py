"""A device without a model whose tokens depend on everything that lies in a request's pages.

A token's "key and value" are its id and a state mixed from the state before it, the id, and what
lies in the adapter's pages. The next token is a function of all ids and states found. So a wrong
page, a wrong hit, a stale block or another adapter's weights show up as another token, and a
thousand requests run in the time a model takes for one.
"""

import hashlib
import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import loraplex.engine.core as core
from loraplex.engine.core import EngineCore
from loraplex.engine.execution.device import Device
from loraplex.engine.lora.layout import tile_rank
from loraplex.engine.lora.loader import AdapterLoader
from loraplex.engine.lora.modules import LINEARS, ModuleNumbers
from loraplex.engine.lora.segments import LoraBatch
from loraplex.engine.memory.geometry import PageGeometry
from loraplex.engine.memory.pool import PagePool
from loraplex.engine.protocol.adapter import AdapterModule, AdapterRef, AdapterSpec, TensorRef
from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.protocol.errors import DomainError
from loraplex.engine.protocol.identity import Digest, TenantNamespace, digest_of_bytes
from loraplex.engine.protocol.module_table import LinearModule, ModuleTable
from loraplex.engine.sampling.sampler import SampledToken
from loraplex.engine.scheduler.assembly import AssembledStep, assemble
from loraplex.engine.scheduler.plan import StepPlan
from tests.engine.driving import LocalFiles

VOCABULARY = 997
FEATURES = 4
PRIME = 65_521
"""States stay below it, so that they are exact in float32."""

TABLE = ModuleTable(
    base_name="fake",
    base_digest=Digest("sha256:" + "0" * 64),
    architecture="Fake",
    layers=1,
    hidden_size=FEATURES,
    vocabulary_size=VOCABULARY,
    max_model_tokens=8192,
    eos_token_ids=(),
    modules=tuple(
        LinearModule(f"model.layers.0.{name}", 0, name, FEATURES, FEATURES) for name in LINEARS
    ),
)


def mixed(state: int, token_id: int, fingerprint: int) -> int:
    return (state * 31 + token_id * 7 + fingerprint + 1) % PRIME


def next_token(token_ids: Sequence[int], states: Sequence[int]) -> int:
    places = np.arange(1, len(token_ids) + 1)
    found = np.asarray(token_ids, dtype=np.int64) * places + np.asarray(states, dtype=np.int64)
    return int(found.sum()) % VOCABULARY


def expected_tokens(prompt: Sequence[int], fingerprint: int, count: int) -> list[int]:
    """What a request gets when nothing goes wrong."""
    ids, states, state = list(prompt), [], 0
    for token_id in ids:
        state = mixed(state, token_id, fingerprint)
        states.append(state)
    for _ in range(count):
        ids.append(next_token(ids, states))
        state = mixed(state, ids[-1], fingerprint)
        states.append(state)
    return ids[len(prompt) :]


@dataclass(frozen=True)
class FakeAdapter:
    ref: AdapterRef
    fingerprint: int


def make_fake_adapter(directory: Path, seed: int, rank: int, tenant: str = "tests") -> FakeAdapter:
    """An adapter of `q_proj` with small whole numbers as weights, exact in any sum."""
    numbers = np.random.default_rng(seed).integers(1, 50, (2, rank, FEATURES)).astype("<f4")
    a, b = numbers[0], numbers[1].T
    data = a.tobytes() + np.ascontiguousarray(b).tobytes()
    path = directory / f"{seed}-{rank}"
    path.write_bytes(data)
    module = AdapterModule(
        path=TABLE.modules[0].path,
        layer=0,
        linear="q_proj",
        rank=rank,
        scale=1.0,
        a=TensorRef("a", "F32", (rank, FEATURES), 0, a.nbytes),
        b=TensorRef("b", "F32", (FEATURES, rank), a.nbytes, len(data)),
    )
    spec = AdapterSpec(
        digest=Digest("sha256:" + hashlib.sha256(struct.pack("<qq", seed, rank)).hexdigest()),
        base_digest=TABLE.base_digest,
        weights_digest=digest_of_bytes(data),
        weights_bytes=len(data),
        modules=(module,),
    )
    ref = AdapterRef(spec=spec, namespace=TenantNamespace(tenant), url=str(path))
    return FakeAdapter(ref, _fingerprint(numbers[0].ravel(), numbers[1].ravel()))


def _fingerprint(a: Any, b: Any) -> int:
    """Of A and of B transposed, in the order in which they lie in tiles."""
    places = np.arange(1, len(a) + 1)
    return int((a * places + 3 * b * places).sum()) % PRIME


@dataclass
class FakeExecutor:
    """Runs a step when its outcomes are asked for, or at once where it does not run ahead.

    `submit_error` and `step_error` make the next step fail before or while it runs;
    `bad_requests` maps ids of requests to what their next token fails with.
    """

    pool: PagePool
    geometry: PageGeometry
    tile_rank: int
    submit_error: Exception | None = None
    step_error: Exception | None = None
    bad_requests: dict[str, DomainError] = field(default_factory=dict)
    submitted_tokens: int = 0
    _last_tokens: dict[str, int] = field(default_factory=dict)
    _waiting: "deque[FakeStep]" = field(default_factory=deque)

    def submit(self, plan: StepPlan) -> "FakeStep":
        error, self.submit_error = self.submit_error, None
        if error is not None:
            raise error
        step = assemble(plan.rows, self.geometry, self.tile_rank, torch.device("cpu"))
        self.submitted_tokens += int(step.tokens.sum())
        pending = FakeStep(self, step, list(plan.new_pages), step_error=self.step_error)
        self.step_error = None
        self._waiting.append(pending)
        return pending

    def run(self, pending: "FakeStep") -> list[SampledToken | DomainError]:
        assert self._waiting.popleft() is pending, "steps are read in the order of submission"
        self.pool.clear(pending.new_pages)
        if pending.step_error is not None:
            raise pending.step_error
        return self._compute(pending.step)

    def _compute(self, step: AssembledStep) -> list[SampledToken | DomainError]:
        """Write each row's id and state, then read all of each sampled sequence."""
        data = self.pool.data.numpy()
        rows = data.reshape(-1, self.geometry.token_elements)
        batch = step.batch
        token_ids = batch.token_ids.tolist()
        for row, request in step.unknown:
            # Where the step before this one failed its row is computed from anything.
            token_ids[row] = self._last_tokens.get(request.request_id, 0)
        slots, positions = batch.slots.tolist(), batch.positions.tolist()
        starts, contexts = batch.query_starts.tolist(), batch.context_tokens.tolist()
        fingerprints = self._fingerprints(batch.lora, len(token_ids), data.reshape(-1))
        sampled = set(batch.sample_rows.tolist())
        found: list[int] = []
        for number, (start, end) in enumerate(pairwise(starts)):
            table = batch.block_tables[number].numpy()
            places = np.arange(contexts[number])
            blocks, offsets = np.divmod(places, self.geometry.block_tokens)
            held = table[blocks] * self.geometry.page_rows + offsets
            assert held[positions[start]] == slots[start], "written where it is read"
            state = int(rows[held[positions[start] - 1], 1]) if positions[start] else 0
            for row in range(start, end):
                state = mixed(state, token_ids[row], fingerprints[row])
                rows[slots[row]] = token_ids[row], state
            if end - 1 in sampled:
                found.append(next_token(rows[held, 0], rows[held, 1]))
        return [
            self._outcome(request.request_id, token_id)
            for request, token_id in zip(step.sampled, found, strict=True)
        ]

    def _outcome(self, request_id: str, token_id: int) -> SampledToken | DomainError:
        self._last_tokens[request_id] = token_id
        return self.bad_requests.pop(request_id, SampledToken(token_id, None))

    def _fingerprints(self, lora: LoraBatch | None, count: int, elements: Any) -> list[int]:
        """Of each row's adapter, as its pages hold it now; 0 for rows of the base."""
        fingerprints = [0] * count
        if lora is None:
            return fingerprints
        for start, end, adapter in lora.segments.tolist():
            rank = int(lora.ranks[adapter, 0])
            parts: list[list[Any]] = [[], []]
            for tile, first in enumerate(range(0, rank, self.tile_rank)):
                size = min(self.tile_rank, rank - first) * FEATURES
                for part, offsets in zip(parts, (lora.a_offsets, lora.b_offsets), strict=True):
                    offset = int(offsets[adapter, 0, tile])
                    part.append(elements[offset : offset + size])
            value = _fingerprint(np.concatenate(parts[0]), np.concatenate(parts[1]))
            fingerprints[start:end] = [value] * (end - start)
        return fingerprints


@dataclass
class FakeStep:
    executor: FakeExecutor
    step: AssembledStep
    new_pages: list[Any]
    step_error: Exception | None

    def outcomes(self) -> list[SampledToken | DomainError]:
        return self.executor.run(self)


def make_fake_engine(
    pages: int,
    *,
    block_tokens: int = 4,
    steps_ahead: int = 0,
    shares_prefixes: bool = True,
    adapters: Any = None,
    loader_threads: int = 0,
    **changes: Any,
) -> tuple[EngineCore, FakeExecutor]:
    """An engine over a pool of so many tiny pages; one rank of an adapter fills one of 8 elements.

    With `loader_threads=0` loads end when the test calls the loader's `run_one`.
    """
    geometry = PageGeometry(pages, 1, block_tokens, kv_heads=1, head_size=1)
    pool = PagePool(pages, geometry.page_elements, torch.float32, torch.device("cpu"))
    ranks = tile_rank(geometry.page_elements, ModuleNumbers(TABLE).widest)
    executor = FakeExecutor(pool, geometry, ranks)
    device = Device(
        executor, geometry, pool, ranks, shares_prefixes=shares_prefixes, steps_ahead=steps_ahead
    )
    values: dict[str, Any] = {
        "model_dir": "",
        "base_name": "fake",
        "block_tokens": block_tokens,
        "max_step_tokens": 7,
        "adapter_cache_dir": "",
    }
    config = EngineConfig(**{**values, **changes})
    with patch.object(core, "AdapterLoader", partial(AdapterLoader, threads=loader_threads)):
        return EngineCore(config, TABLE, adapters or LocalFiles(), device), executor
