"""What one step will do."""

from dataclasses import dataclass, field

import numpy as np

from loraplex.engine.memory.pool import PageId
from loraplex.engine.protocol.errors import DomainError
from loraplex.engine.request import Request
from loraplex.engine.scheduler.rows import Integers, RunningRows


@dataclass(slots=True)
class StepPlan:
    """`rows.granted` says how many tokens each request computes; `budget_tokens` is what is left.

    `new_pages` must be cleared before the step. `failed` are requests that have ended because
    they can never run. `is_stalled` asks for another plan at once, though this one does nothing.
    """

    rows: RunningRows
    budget_tokens: int
    new_pages: list[PageId] = field(default_factory=list)
    failed: list[tuple[Request, DomainError]] = field(default_factory=list)
    has_preempted: bool = False
    is_stalled: bool = False

    def __post_init__(self) -> None:
        self.rows.granted[:] = 0

    @property
    def has_grants(self) -> bool:
        return bool(self.rows.granted.any())

    @property
    def requests(self) -> list[Request]:
        """Whoever is granted something."""
        return self.rows.held_by(np.flatnonzero(self.rows.granted))

    def grant(self, request: Request, tokens: int) -> None:
        self.rows.granted[request.row] = tokens
        self.budget_tokens -= tokens

    def grant_one_each(self, rows: Integers) -> None:
        self.rows.granted[rows] = 1
        self.budget_tokens -= len(rows)

    def revoke(self, request: Request) -> None:
        self.budget_tokens += int(self.rows.granted[request.row])
        self.rows.granted[request.row] = 0
