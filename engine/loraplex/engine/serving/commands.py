"""What the transport thread asks of the engine thread, in the order gateways said it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.generation import GenerationRequest

GatewayIdentity = bytes
"""The ROUTER's name for a connected gateway."""


@dataclass(frozen=True, slots=True)
class Add:
    gateway: GatewayIdentity
    request: GenerationRequest


@dataclass(frozen=True, slots=True)
class CancelRequest:
    gateway: GatewayIdentity
    request_id: str


@dataclass(frozen=True, slots=True)
class Reconcile:
    """`request_ids` is everything this gateway still waits for; nothing, when it is gone."""

    gateway: GatewayIdentity
    request_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Forget:
    """The counts of these ended requests are billed."""

    request_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class Tell:
    """Answer this gateway what became of the requests."""

    gateway: GatewayIdentity
    question: int
    request_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class Expect:
    """Bring these adapters near: requests for them may come."""

    adapters: Sequence[AdapterRef]


@dataclass(frozen=True, slots=True)
class Pin:
    """Keep these adapters in the pool once they are loaded, and no others."""

    adapters: Sequence[AdapterRef]


@dataclass(frozen=True, slots=True)
class EndAll:
    """End every request: the worker is shutting down."""


Command = Add | CancelRequest | Reconcile | Forget | Tell | Expect | Pin | EndAll


class Inbox:
    """Commands on their way to the engine thread."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._commands: SimpleQueue[Command] = SimpleQueue()
        self._wake = wake

    def put(self, command: Command) -> None:
        """Queue a command and wake the engine thread; from any thread."""
        self._commands.put(command)
        self._wake()

    def take(self) -> list[Command]:
        """Everything queued so far, oldest first; never blocks."""
        taken: list[Command] = []
        while True:
            try:
                taken.append(self._commands.get_nowait())
            except Empty:
                return taken

    @property
    def is_empty(self) -> bool:
        return self._commands.empty()
