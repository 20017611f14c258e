"""Registrations of workers that exist only as rows."""

from uuid import uuid4

from loraplex.engine.protocol.identity import digest_of_bytes
from loraplex.engine.protocol.messages import PROTOCOL_VERSION
from loraplex.engine.protocol.workers import Role, WorkerLimits, WorkerRegistration


def a_registration(
    worker_id: str | None = None, protocol_version: int = PROTOCOL_VERSION
) -> WorkerRegistration:
    return WorkerRegistration(
        worker_id=worker_id or f"w-{uuid4().hex}",
        incarnation=uuid4().hex,
        protocol_version=protocol_version,
        pool="default",
        role=Role.UNIFIED,
        base_name=f"base-{uuid4().hex}",
        base_digest=digest_of_bytes(b"base"),
        requests_endpoint="tcp://127.0.0.1:1",
        events_endpoint="tcp://127.0.0.1:2",
        curve_public_key="x" * 40,
        process_id=1,
        limits=WorkerLimits(4096, 4096, 16, 4096, 256, 64),
    )
