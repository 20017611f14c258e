"""What gateways and workers say to each other: msgspec messages over ZeroMQ with CURVE keys.

A worker binds two sockets. `requests` (ROUTER; gateways connect a DEALER) carries GatewayMessage
in and WorkerMessage out, one frame a message. `events` (PUB; gateways connect a SUB) carries
EventMessage, one frame each: heartbeats now, KV events later.

Every message names the worker's incarnation, because ZeroMQ delivers what was queued for a dead
peer to whoever binds its address next: a message for another incarnation is dropped.

    gateway                            worker
      Hello            ───────────▶
                       ◀───────────    Welcome
      Submit           ───────────▶
                       ◀───────────    StepOutputs (one batch a step and gateway)
      Cancel           ───────────▶                (the request still ends with a finish_reason)
      KeepAlive (1/s)  ───────────▶                (a silent gateway's requests are cancelled)
      Acknowledge      ───────────▶                (the bill of these is written)
      Recount          ───────────▶                (of requests whose own gateway is gone)
                       ◀───────────    Recounted

KeepAlive names every request the gateway still waits for. Messages of one gateway arrive in order,
so both sides can reconcile: the worker cancels what is not named, and fails what it does not know.
Neither a lost Cancel nor a lost last output can leave a request behind.

A worker keeps the final counts of every request, however it ended, until a gateway acknowledges
them, so that the bill of a gateway that died can be written by another one.
"""

import msgspec

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.generation import FinalCounts, GenerationRequest, RequestOutput
from loraplex.engine.protocol.identity import Digest
from loraplex.engine.protocol.workers import AdaptersInUse, ProcessUse, WorkerLimits, WorkerLoad

PROTOCOL_VERSION = 4
HEARTBEAT_SECONDS = 0.5
SILENCE_SECONDS = 2.0
"""A worker or gateway not heard of for this long is treated as lost."""


# Gateway to worker


class Hello(msgspec.Struct, frozen=True, tag=True):
    protocol_version: int
    gateway_id: str
    incarnation: str


class Submit(msgspec.Struct, frozen=True, tag=True):
    incarnation: str
    request: GenerationRequest


class Cancel(msgspec.Struct, frozen=True, tag=True):
    incarnation: str
    request_id: str


class KeepAlive(msgspec.Struct, frozen=True, tag=True):
    incarnation: str
    request_ids: list[str]
    """Everything submitted and not yet finished, as the gateway knows it."""


class Foretell(msgspec.Struct, frozen=True, tag=True):
    """Requests for these adapters may come soon; nothing is promised, and nothing answered."""

    incarnation: str
    adapters: list[AdapterRef]


class Acknowledge(msgspec.Struct, frozen=True, tag=True):
    """The bill of these requests is written: their counts need not be kept any more."""

    incarnation: str
    request_ids: list[str]


class Recount(msgspec.Struct, frozen=True, tag=True):
    """What became of these requests, of any gateway? `question` comes back with the answer."""

    incarnation: str
    question: int
    request_ids: list[str]


GatewayMessage = Hello | Submit | Cancel | KeepAlive | Foretell | Acknowledge | Recount


# Worker to gateway


class Welcome(msgspec.Struct, frozen=True, tag=True):
    protocol_version: int
    incarnation: str
    base_digest: Digest
    limits: WorkerLimits


class StepOutputs(msgspec.Struct, frozen=True, tag=True):
    incarnation: str
    step: int
    outputs: list[RequestOutput]


class Recounted(msgspec.Struct, frozen=True, tag=True):
    """Of the requests asked for: those that have ended, and those that still run.

    The others this incarnation has never had, or has had acknowledged, or has kept too long.
    """

    incarnation: str
    question: int
    ended: list[FinalCounts]
    running: list[str]


WorkerMessage = Welcome | StepOutputs | Recounted


# Events


class Heartbeat(msgspec.Struct, frozen=True, tag=True):
    """Sent by a thread of its own every HEARTBEAT_SECONDS, however long a step takes.

    `step` counts finished steps; `step_running_seconds` is how long the current one has run. A
    worker that is shutting down is no longer `accepting` requests.
    """

    incarnation: str
    worker_id: str
    step: int
    step_running_seconds: float
    load: WorkerLoad
    accepting: bool = True
    adapters: AdaptersInUse = AdaptersInUse()
    process: ProcessUse | None = None


EventMessage = Heartbeat
