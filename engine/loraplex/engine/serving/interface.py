"""What serving needs of an engine, so that it never imports torch."""

from typing import Protocol

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.generation import GenerationRequest, RequestOutput
from loraplex.engine.protocol.identity import Digest, TenantNamespace
from loraplex.engine.protocol.workers import AdaptersInUse, WorkerLimits, WorkerLoad


class Engine(Protocol):
    """EngineCore as its one thread drives it; only `wake` may be called from another."""

    def add(self, request: GenerationRequest) -> None:
        """Raises a DomainError when the request can never run."""
        ...

    def cancel(self, request_id: str) -> None: ...

    def pin(self, ref: AdapterRef) -> None:
        """Keep it in the pool once it is loaded. Raises a DomainError where it cannot be."""
        ...

    def unpin(self, key: tuple[TenantNamespace, Digest]) -> None: ...

    def foretell(self, adapter: AdapterRef) -> None:
        """A request for this adapter may come soon. Raises a DomainError where none could run."""
        ...

    def step(self) -> list[RequestOutput]: ...

    def wait_for_work(self, timeout_seconds: float) -> bool:
        """Blocks until a step would do something, or somebody called `wake`."""
        ...

    def wake(self) -> None: ...

    def load(self) -> WorkerLoad: ...

    def adapters_in_use(self) -> AdaptersInUse:
        """From any thread."""
        ...

    def limits(self) -> WorkerLimits: ...
