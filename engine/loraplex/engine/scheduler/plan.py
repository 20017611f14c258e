"""What one step will do."""

from dataclasses import dataclass, field

from loraplex.engine.memory.pool import PageId
from loraplex.engine.protocol.errors import DomainError
from loraplex.engine.request import Request


@dataclass(slots=True)
class StepPlan:
    """`grants` says how many tokens each request computes; `budget_tokens` is what is left.

    `new_pages` must be cleared before the step. `failed` are requests that have ended because
    they can never run. `is_stalled` asks for another plan at once, though this one does nothing.
    """

    budget_tokens: int
    grants: dict[Request, int] = field(default_factory=dict)
    new_pages: list[PageId] = field(default_factory=list)
    failed: list[tuple[Request, DomainError]] = field(default_factory=list)
    has_preempted: bool = False
    is_stalled: bool = False

    def grant(self, request: Request, tokens: int) -> None:
        self.grants[request] = tokens
        self.budget_tokens -= tokens

    def revoke(self, request: Request) -> None:
        self.budget_tokens += self.grants.pop(request, 0)
