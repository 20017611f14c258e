"""Who a worker is, and the key pair of this one life of it."""

import secrets
from dataclasses import dataclass, field

import zmq

from loraplex.engine.protocol.identity import Digest
from loraplex.engine.protocol.workers import Role


@dataclass(frozen=True)
class CurvePair:
    """A ZeroMQ CURVE key pair in Z85."""

    public: bytes
    secret: bytes = field(repr=False)

    @classmethod
    def new(cls) -> "CurvePair":
        return cls(*zmq.curve_keypair())


@dataclass(frozen=True)
class WorkerIdentity:
    """A worker and what it serves. A restart keeps `worker_id` and makes a new incarnation."""

    worker_id: str
    pool: str
    role: Role
    base_name: str
    base_digest: Digest
    incarnation: str = field(default_factory=lambda: secrets.token_hex(8))
    curve: CurvePair = field(default_factory=CurvePair.new)
