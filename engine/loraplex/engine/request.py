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
from loraplex.engine.protocol.generation import GenerationRequest, Priority
from loraplex.engine.sampling.state import SamplingState
from loraplex.engine.scheduler.accounts import TenantAccount
from loraplex.engine.scheduler.rows import NO_ADAPTER, RunningRows
from loraplex.engine.stamps import Stamps


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
    """What a request is, wherever it stands; what it counts while it runs is its row's.

    `token_ids` is as long as the request may ever grow; `fill` writes the newest ones there.
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
    chain: KeyChain | None
    """Keys of its full blocks; None where it shares none."""
    prompt_tokens: int
    limit_tokens: int
    """Prompt and output at most. The last token is never computed: nothing follows it."""
    most_pages: int
    """That it and its adapter may need."""
    priority: Priority
    state: RequestState = RequestState.WAITING
    rows: RunningRows | None = None
    row: int = -1
    """Its place in `rows`; set while it has any pages."""
    adapter_key: AdapterKey | None = None
    adapter: ResidentAdapter | None = None
    """Set while running."""
    shared_blocks: int = 0
    """Its first blocks that were found in the prefix cache or offered to it."""
    cached_tokens: int = 0
    """Prompt tokens found in the prefix cache when it first started."""
    standing: Standing | None = None
    """Set when it first starts."""
    preemptions: int = 0
    stamps: Stamps = field(default_factory=Stamps)
    is_overdue: bool = False
    """Its adapter waited for too long: once loaded, it starts before all others."""
    _unfilled: list[int] = field(default_factory=list)
    """Accepted tokens that `token_ids` lacks: a list is faster, a token at a time."""

    @property
    def computed_tokens(self) -> int:
        return 0 if self.rows is None else int(self.rows.computed[self.row])

    @property
    def wanted_tokens(self) -> int:
        return self.known_tokens if self.rows is None else int(self.rows.wanted[self.row])

    @property
    def settled_tokens(self) -> int:
        return 0 if self.rows is None else int(self.rows.settled[self.row])

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
    def is_in_flight(self) -> bool:
        """Whether a step that computes it has not been settled."""
        return self.rows is not None and bool(self.rows.in_flight[self.row])

    @property
    def blocks(self) -> int:
        """How many pages it has."""
        return 0 if self.rows is None else int(self.rows.blocks[self.row])

    @property
    def pages(self) -> list[PageId]:
        return self.pages_of(0, self.blocks)

    def pages_of(self, start: int, end: int) -> list[PageId]:
        """Of its blocks from `start` to `end`."""
        return [] if self.rows is None else self.rows.pages_of(self.row, start, end)

    def append(self, token_id: int) -> None:
        """Accept the token that a step has sampled."""
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
        assert self.rows is not None, "it has started"
        self.rows.add_pages(self.row, pages)

    def begin(self, rows: RunningRows, pages: list[PageId]) -> None:
        """Start with full blocks that others have computed."""
        row = self.row = rows.take(self)
        self.rows = rows
        rows.known[row] = rows.wanted[row] = self.known_tokens
        rows.prompt[row], rows.limit[row] = self.prompt_tokens, self.limit_tokens
        rows.last_token[row] = self.fill()[-1]
        rows.adapter[row] = NO_ADAPTER if self.adapter is None else self.adapter.number
        rows.computed[row] = rows.settled[row] = len(pages) * rows.block_tokens
        self.add_pages(pages)
        self.count_shared(len(pages))

    def count_shared(self, blocks: int) -> None:
        assert self.rows is not None, "it has started"
        self.shared_blocks = blocks
        self.rows.next_share[self.row] = (blocks + 1) * self.rows.block_tokens

    def drop_pages(self) -> None:
        """Forget pages that were given back, and what was computed in them."""
        assert self.rows is not None, "it has started"
        self.rows.give_back(self.row)
        self.rows, self.row = None, -1
        self.shared_blocks = 0


def new_request(
    message: GenerationRequest,
    arrival: int,
    account: TenantAccount,
    vocabulary_size: int,
    chain: KeyChain | None,
    most_pages: int,
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
        chain=chain,
        prompt_tokens=len(prompt),
        limit_tokens=limit_tokens,
        most_pages=most_pages,
        priority=message.priority,
        adapter_key=None if message.adapter is None else key_of(message.adapter),
    )
