"""How much service each tenant has had: virtual token counters (VTC, arXiv 2401.00588).

The tenant with the least service per weight is served next. A tenant that comes back from idling
is lifted to the least of those in line: nobody saves up turns by not using them. Between two
tenants that both stay in line, the counters never differ by more than one charge and what is
still to be charged for requests that already run.
"""

import heapq
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.scheduler.charges import OUTPUT_TOKEN_COST, output_cost

_KEPT: Final = 4096
"""Accounts of tenants that have nothing here; forgetting one forgives at most what lifts do."""


@dataclass(slots=True, eq=False)
class TenantAccount:
    """`service` is in tokens per unit of weight, and only grows."""

    namespace: TenantNamespace
    service: float = 0.0
    promised: float = 0.0
    """Service that its running requests may still take, if each uses all it asked for."""
    share: float = 1.0
    """1 / weight."""
    waiting_requests: int = 0
    live_requests: int = 0

    def charge(self, cost: float) -> None:
        self.service += cost * self.share

    def promise(self, output_tokens: int) -> None:
        self.promised += output_cost(output_tokens)

    def deliver_token(self) -> None:
        """Charge one token of the output that was promised."""
        self.service += OUTPUT_TOKEN_COST * self.share
        self.promised -= OUTPUT_TOKEN_COST

    def forgive(self, output_tokens: int) -> None:
        """Promised output will not come: the request has ended."""
        self.promised -= output_cost(output_tokens)


@dataclass(slots=True)
class Accounts:
    """All tenants' accounts, and the least service of those in line."""

    _by_tenant: dict[TenantNamespace, TenantAccount] = field(default_factory=dict)
    _in_line: list[tuple[float, int, TenantAccount]] = field(default_factory=list)
    """A heap. Service only grows, so a stale entry comes up early and is corrected then."""
    _turns: "count[int]" = field(default_factory=count)
    _last_in_line: TenantAccount | None = None
    _prune_at: int = _KEPT

    def arrive(self, namespace: TenantNamespace, weight: float) -> TenantAccount:
        """The account of a new request; its weight is the tenant's from now on."""
        account = self._by_tenant.get(namespace)
        if account is None:
            if len(self._by_tenant) >= self._prune_at:
                self._prune()
            account = self._by_tenant[namespace] = TenantAccount(namespace)
        account.share = 1.0 / weight
        account.live_requests += 1
        return account

    def end(self, account: TenantAccount) -> None:
        account.live_requests -= 1

    def enter_line(self, account: TenantAccount) -> None:
        """One more of its requests waits; the first one lifts it."""
        account.waiting_requests += 1
        if account.waiting_requests > 1:
            return
        account.service = max(account.service, self.least_service())
        heapq.heappush(self._in_line, (account.service, next(self._turns), account))

    def leave_line(self, account: TenantAccount) -> None:
        account.waiting_requests -= 1
        if account.waiting_requests == 0:
            self._last_in_line = account

    def least_service(self) -> float:
        """Of the tenants in line; where nobody is, of the one that left last."""
        heap = self._in_line
        while heap:
            service, turn, account = heap[0]
            if account.waiting_requests == 0:
                heapq.heappop(heap)
            elif account.service > service:
                heapq.heapreplace(heap, (account.service, turn, account))
            else:
                return service
        return 0.0 if self._last_in_line is None else self._last_in_line.service

    def _prune(self) -> None:
        floor = self.least_service()
        self._by_tenant = {
            namespace: account
            for namespace, account in self._by_tenant.items()
            if account.live_requests or account.service > floor
        }
        self._prune_at = max(_KEPT, 2 * len(self._by_tenant))
