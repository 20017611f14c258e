"""A request as the engine runs it: two counters, computed and wanted."""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import structs

from loraplex.engine.memory.pool import PageId
from loraplex.engine.memory.residency import AdapterKey, ResidentAdapter, key_of
from loraplex.engine.protocol.cache_keys import KeyChain
from loraplex.engine.protocol.messages import GenerationRequest, Priority
from loraplex.engine.sampling.state import SamplingState
from loraplex.engine.scheduler.accounts import TenantAccount
from loraplex.engine.scheduler.block_tables import TableRow


class RequestState(Enum):
    WAITING = auto()
    """In line."""
    PARKED = auto()
    """Its adapter is not resident; it holds no place in line."""
    RUNNING = auto()
    """It has pages, and its adapter stays resident."""
    ENDED = auto()


class Standing(NamedTuple):
    """A request's place in the order of preemption: the last in it goes first."""

    priority: Priority
    promised_service: float
    """What a fair server would have served the tenant before it came to this request."""
    arrival: int


@dataclass(slots=True, eq=False)
class Request:
    """`token_ids` is as long as the request may ever grow; `fill` writes the newest ones there.

    A step counts as computed when it is submitted. Until it has been settled the token that it
    samples is wanted, but not known.
    """

    message: GenerationRequest
    """Without the prompt, which as Python's numbers would take five times the room."""
    request_id: str
    arrival: int
    account: TenantAccount
    sampling: SamplingState
    token_ids: npt.NDArray[np.int64]
    last_token_id: int
    block_tokens: int
    chain: KeyChain | None
    """Keys of its full blocks; None where it shares none."""
    prompt_tokens: int
    limit_tokens: int
    """Prompt and output at most. The last token is never computed: nothing follows it."""
    wanted_tokens: int
    """Prompt and output so far."""
    priority: Priority
    computed_tokens: int = 0
    """Tokens whose keys and values are in pages, or will be after the steps in flight."""
    settled_tokens: int = 0
    """Computed by steps that are known to have succeeded."""
    steps_in_flight: int = 0
    state: RequestState = RequestState.WAITING
    pages: list[PageId] = field(default_factory=list)
    capacity_tokens: int = 0
    """Tokens that its pages hold."""
    table_row: TableRow | None = None
    """Where `pages` stand for kernels; set while it has any."""
    adapter_key: AdapterKey | None = None
    adapter: ResidentAdapter | None = None
    """Set while running."""
    shared_blocks: int = 0
    """Its first blocks that were found in the prefix cache or offered to it."""
    next_share_tokens: int = 0
    """Settled tokens that fill another block."""
    cached_tokens: int = 0
    """Prompt tokens found in the prefix cache when it first started."""
    standing: Standing | None = None
    """Set when it first starts."""
    preemptions: int = 0
    is_overdue: bool = False
    """Its adapter waited for too long: once loaded, it starts before all others."""
    _unfilled: list[int] = field(default_factory=list)
    """Accepted tokens that `token_ids` lacks: a list is faster, a token at a time."""

    @property
    def missing_tokens(self) -> int:
        return self.wanted_tokens - self.computed_tokens

    @property
    def output_tokens(self) -> int:
        return self.sampling.output_tokens

    @property
    def known_tokens(self) -> int:
        return self.prompt_tokens + self.sampling.output_tokens

    @property
    def may_grow(self) -> bool:
        """Whether its pages do not hold all it may still compute."""
        return self.capacity_tokens < self.limit_tokens - 1

    def append(self, token_id: int) -> None:
        """Accept the token that a step has sampled."""
        self.last_token_id = token_id
        self._unfilled.append(token_id)
        self.sampling.record(token_id)

    def fill(self) -> npt.NDArray[np.int64]:
        """All tokens that are known, `[known_tokens]`."""
        known = self.known_tokens
        if self._unfilled:
            self.token_ids[known - len(self._unfilled) : known] = self._unfilled
            self._unfilled.clear()
        return self.token_ids[:known]

    def add_pages(self, pages: list[PageId]) -> None:
        assert self.table_row is not None, "it has started"
        self.table_row.append(len(self.pages), pages)
        self.pages.extend(pages)
        self.capacity_tokens = len(self.pages) * self.block_tokens

    def begin(self, row: TableRow, pages: list[PageId]) -> None:
        """Start with full blocks that others have computed."""
        self.table_row = row
        self.add_pages(pages)
        self.fill()
        self.count_shared(len(pages))
        self.computed_tokens = self.settled_tokens = self.capacity_tokens

    def count_shared(self, blocks: int) -> None:
        self.shared_blocks = blocks
        self.next_share_tokens = (blocks + 1) * self.block_tokens

    def drop_pages(self) -> None:
        """Forget pages that were given back, and what was computed in them."""
        assert self.table_row is not None, "it has started"
        self.table_row.give_back()
        self.table_row = None
        self.pages.clear()
        self.capacity_tokens = 0
        self.computed_tokens = self.settled_tokens = self.shared_blocks = 0


def new_request(
    message: GenerationRequest,
    arrival: int,
    account: TenantAccount,
    block_tokens: int,
    vocabulary_size: int,
    chain: KeyChain | None,
) -> Request:
    """A request at the beginning; its buffer's memory is touched only as it grows."""
    prompt = message.prompt_token_ids
    limit_tokens = len(prompt) + message.sampling.max_tokens
    token_ids = np.empty(limit_tokens, dtype=np.int64)
    token_ids[: len(prompt)] = prompt
    if chain is not None:
        chain.extend(token_ids[: len(prompt)])
    return Request(
        message=structs.replace(message, prompt_token_ids=[]),
        request_id=message.request_id,
        arrival=arrival,
        account=account,
        sampling=SamplingState(message.sampling, prompt, vocabulary_size),
        token_ids=token_ids,
        last_token_id=prompt[-1],
        block_tokens=block_tokens,
        chain=chain,
        prompt_tokens=len(prompt),
        limit_tokens=limit_tokens,
        wanted_tokens=len(prompt),
        priority=message.priority,
        adapter_key=None if message.adapter is None else key_of(message.adapter),
    )
