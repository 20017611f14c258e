"""Judges what to bill of a request whose gateway is gone, by what the workers counted. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec

from loraplex.engine.protocol.generation import FinishReason
from loraplex.engine.protocol.identity import Digest
from loraplex.platform.metering.sequences import CallUsage, SequenceUsage, total
from loraplex.platform.pools.recounting import Recount


class Outcome(StrEnum):
    """How a request whose gateway is gone ended, as far as anybody knows."""

    COMPLETED = "completed"
    """All of it was generated; whether its client saw it, nobody knows."""
    FAILED = "failed"
    LOST = "lost"


class Lapsed(msgspec.Struct, frozen=True):
    """A reservation that nobody has renewed. `key_id` makes it a payer."""

    tenant_id: UUID
    request_id: str
    model: str
    base_model: str
    price_id: UUID
    admitted_at: datetime
    is_overdue: bool
    api_key_id: UUID | None = None
    member_id: UUID | None = None
    adapter_digest: Digest | None = None
    adapter_id: UUID | None = None
    adapter_version: int | None = None
    sequences: int | None = None
    choices_per_prompt: int | None = None

    @property
    def sequence_ids(self) -> list[str]:
        return [f"{self.request_id}-{index}" for index in range(self.sequences or 1)]


@dataclass(frozen=True, slots=True)
class Verdict:
    outcome: Outcome
    used: CallUsage


def judge(lapsed: Lapsed, recount: Recount) -> Verdict | None:
    """What to bill; None while that may still change."""
    names = lapsed.sequence_ids
    if not recount.running.isdisjoint(names):
        return None
    known = [
        (place, recount.ended[name]) for place, name in enumerate(names) if name in recount.ended
    ]
    is_whole = len(known) == len(names)
    if not is_whole and not lapsed.is_overdue:
        return None
    used = total(
        SequenceUsage(
            place // (lapsed.choices_per_prompt or 1),
            counts.prompt_tokens,
            counts.cached_tokens,
            counts.output_tokens,
        )
        for place, counts in known
    )
    if not is_whole:
        return Verdict(Outcome.LOST, used)
    ends = {counts.finish_reason for _, counts in known}
    is_complete = ends <= {FinishReason.STOP, FinishReason.LENGTH}
    return Verdict(Outcome.COMPLETED if is_complete else Outcome.FAILED, used)
