"""A request as the engine runs it: two counters, computed and wanted."""

from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np
import numpy.typing as npt

from loraplex.engine.memory.pool import PageId
from loraplex.engine.memory.residency import AdapterKey, ResidentAdapter, key_of
from loraplex.engine.protocol.messages import GenerationRequest
from loraplex.engine.sampling.state import SamplingState


class RequestState(Enum):
    WAITING = auto()
    """In line."""
    PARKED = auto()
    """Its adapter is loading; it holds no place in line."""
    RUNNING = auto()
    """It has pages, and its adapter stays resident."""
    ENDED = auto()


@dataclass(slots=True, eq=False)
class Request:
    """`token_ids` and `block_table` are as long as the request may ever grow.

    Their first `wanted_tokens` and `len(pages)` entries are filled.
    """

    message: GenerationRequest
    arrival: int
    sampling: SamplingState
    token_ids: npt.NDArray[np.int64]
    block_table: npt.NDArray[np.int32]
    wanted_tokens: int
    """Prompt and accepted output."""
    computed_tokens: int = 0
    """Tokens whose keys and values are in pages."""
    state: RequestState = RequestState.WAITING
    pages: list[PageId] = field(default_factory=list)
    adapter: ResidentAdapter | None = None
    """Set while running."""
    blocked_steps: int = 0
    """Steps in which the pool had no room for its adapter."""

    @property
    def request_id(self) -> str:
        return self.message.request_id

    @property
    def missing_tokens(self) -> int:
        return self.wanted_tokens - self.computed_tokens

    @property
    def prompt_tokens(self) -> int:
        return len(self.message.prompt_token_ids)

    @property
    def output_tokens(self) -> int:
        return self.sampling.output_tokens

    @property
    def adapter_key(self) -> AdapterKey | None:
        return None if self.message.adapter is None else key_of(self.message.adapter)

    def append(self, token_id: int) -> None:
        """Accept a sampled token."""
        self.token_ids[self.wanted_tokens] = token_id
        self.wanted_tokens += 1
        self.sampling.record(token_id)

    def add_pages(self, pages: list[PageId]) -> None:
        count = len(self.pages)
        self.block_table[count : count + len(pages)] = pages
        self.pages.extend(pages)


def new_request(
    message: GenerationRequest, arrival: int, block_tokens: int, vocabulary_size: int
) -> Request:
    """A request at the beginning; its buffers' memory is touched only as it grows."""
    prompt = message.prompt_token_ids
    limit_tokens = len(prompt) + message.sampling.max_tokens
    token_ids = np.empty(limit_tokens, dtype=np.int64)
    token_ids[: len(prompt)] = prompt
    return Request(
        message=message,
        arrival=arrival,
        sampling=SamplingState(message.sampling, prompt, vocabulary_size),
        token_ids=token_ids,
        block_table=np.empty(-(-limit_tokens // block_tokens), dtype=np.int32),
        wanted_tokens=len(prompt),
    )
