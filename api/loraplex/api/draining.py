"""The end of a gateway: no new calls, and those that run get some time, then an error event."""

from typing import Protocol

from prometheus_client import Gauge

from loraplex.api.refusals import ShuttingDown
from loraplex.engine.protocol.errors import DomainError
from loraplex.platform.tenancy.identity import TenantId


class Abortable(Protocol):
    @property
    def tenant_id(self) -> TenantId: ...

    def abort(self, error: DomainError) -> None: ...


class Draining:
    """The calls of one gateway that run now."""

    def __init__(self, running_calls: Gauge) -> None:
        self.has_begun = False
        self._running: set[Abortable] = set()
        self._running_calls = running_calls

    def enter(self, call: Abortable) -> None:
        """Count a call in; raises ShuttingDown once draining has begun."""
        if self.has_begun:
            raise ShuttingDown
        self._running.add(call)
        self._running_calls.set(len(self._running))

    def leave(self, call: Abortable) -> None:
        self._running.discard(call)
        self._running_calls.set(len(self._running))

    def tenants(self) -> set[TenantId]:
        """Whose calls run now."""
        return {call.tenant_id for call in self._running}

    def abort_tenant(self, tenant_id: TenantId, error: DomainError) -> None:
        """End what runs for one tenant with an error its client is told."""
        for call in tuple(self._running):
            if call.tenant_id == tenant_id:
                call.abort(error)

    def begin(self) -> None:
        self.has_begun = True

    def abort_running(self) -> None:
        """End what still runs, each with an error its client is told."""
        for call in tuple(self._running):
            call.abort(ShuttingDown())
