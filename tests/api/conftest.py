"""Gateways over the real services, with a worker whose engine repeats the prompt."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import pytest
import structlog
from sqlalchemy import func, update

from loraplex.adapters_registry.versions.service import register_base
from loraplex.api.text.base_text import BaseText
from loraplex.engine.protocol.describe import load_or_describe
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.protocol.tracing import NO_TRACING, Tracing
from loraplex.engine.protocol.workers import Role
from loraplex.engine.serving.identity import WorkerIdentity
from loraplex.engine.serving.server import WorkerServer
from loraplex.platform.database.sessions import Database
from loraplex.platform.pools.models import Worker
from loraplex.platform.pools.service import WorkerRegistry
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import TenantAdministration
from tests.api.running import RunningGateway, running_gateway
from tests.api.talking_engine import TalkingEngine
from tests.engine.worker.echo_engine import EchoEngine

if TYPE_CHECKING:
    from tests.api.raw_calls import RawCall
    from tests.api.stages import Stage


@pytest.fixture(scope="session", autouse=True)
def _plain_logs() -> None:
    """structlog's default draws tracebacks with every local variable: seconds each."""
    structlog.configure(
        processors=[
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["event"]),
        ]
    )


@dataclass(frozen=True)
class Tenant:
    name: str
    key: str


@pytest.fixture(scope="session")
def base_text(smollm2_dir: Path) -> BaseText:
    return BaseText.load(smollm2_dir)


@pytest.fixture(scope="session")
def table(smollm2_dir: Path) -> ModuleTable:
    return load_or_describe(smollm2_dir, None, smollm2_dir.parent)


@pytest.fixture(scope="session")
def gateway_settings(services: Settings, smollm2_dir: Path) -> Settings:
    return services.model_copy(update={"model": str(smollm2_dir)})


async def in_system(settings: Settings, work: Any) -> Any:
    """Run `work(session)` in one transaction of role `system`."""
    assert settings.database_system_url is not None
    database = Database(settings.database_system_url.get_secret_value(), pool_size=1)
    try:
        async with database.unit_of_work() as session:
            return await work(session)
    finally:
        await database.dispose()


def new_tenant(settings: Settings, **limits: Any) -> Tenant:
    """A tenant that no other test has, and a key of it."""
    administration = TenantAdministration(SecretKeys.from_settings(settings))
    name = f"t-{uuid4().hex[:12]}"

    async def create(session: Any) -> str:
        tenant = await administration.create_tenant(session, name, **limits)
        _, key = await administration.create_key(session, tenant, "test")
        return key

    return Tenant(name, asyncio.run(in_system(settings, create)))


@pytest.fixture(scope="session")
def tenant(gateway_settings: Settings) -> Tenant:
    return new_tenant(gateway_settings)


@pytest.fixture(scope="session")
def neighbour(gateway_settings: Settings) -> Tenant:
    return new_tenant(gateway_settings)


@pytest.fixture(scope="session")
def operator_key(gateway_settings: Settings) -> str:
    administration = TenantAdministration(SecretKeys.from_settings(gateway_settings))

    async def create(session: Any) -> str:
        _, key = await administration.create_operator_key(session, "test")
        return key

    key: str = asyncio.run(in_system(gateway_settings, create))
    return key


@pytest.fixture(scope="session")
def registered_base(gateway_settings: Settings, table: ModuleTable) -> None:
    asyncio.run(in_system(gateway_settings, lambda session: register_base(session, table)))


@pytest.fixture(scope="module")
def engine() -> EchoEngine:
    """Repeats the prompt, a token a step, until max_tokens; tells logprobs when asked."""
    return TalkingEngine(step_seconds=0.002)


@contextmanager
def running_worker(
    settings: Settings, table: ModuleTable, engine: EchoEngine, tracing: Tracing = NO_TRACING
) -> Iterator[WorkerServer]:
    """A worker around the engine, with a lease that outlives the test."""
    keys = SecretKeys.from_settings(settings).gateway_curve()
    identity = WorkerIdentity(
        f"w-{uuid4().hex[:8]}", "default", Role.UNIFIED, table.base_name, table.base_digest
    )
    server = WorkerServer(
        engine, identity, gateway_public_key=keys.public.decode(), tracing=tracing
    ).start()
    registration = server.registration

    async def register(session: Any) -> None:
        await WorkerRegistry(session).register(registration)
        await session.execute(
            update(Worker)
            .where(Worker.worker_id == registration.worker_id)
            .values(lease_expires_at=func.now() + timedelta(hours=1))
        )

    async def deregister(session: Any) -> None:
        await WorkerRegistry(session).deregister(registration.worker_id, registration.incarnation)

    asyncio.run(in_system(settings, register))
    try:
        yield server
    finally:
        asyncio.run(in_system(settings, deregister))
        engine.allowed.set()
        assert server.stop(drain_seconds=0)


@pytest.fixture(scope="module")
def worker(
    engine: EchoEngine, gateway_settings: Settings, table: ModuleTable
) -> Iterator[WorkerServer]:
    with running_worker(gateway_settings, table, engine) as server:
        yield server


@pytest.fixture(scope="module")
def gateway(
    gateway_settings: Settings, worker: WorkerServer, registered_base: None
) -> Iterator[RunningGateway]:
    with running_gateway(gateway_settings) as gateway:
        yield gateway


@pytest.fixture
def customer(gateway_settings: Settings) -> Tenant:
    """A tenant whose ledger holds this test's calls alone."""
    return new_tenant(gateway_settings)


class CallFactory(Protocol):
    def __call__(
        self,
        gateway: RunningGateway,
        key: str,
        body: dict[str, Any],
        headers: Mapping[str, str] | None = None,
    ) -> "RawCall": ...


@pytest.fixture
def call() -> Iterator[CallFactory]:
    """Starts raw calls; hangs up on all of them at the end."""
    from tests.api.raw_calls import RawCall

    calls: list[RawCall] = []

    def start(
        gateway: RunningGateway,
        key: str,
        body: dict[str, Any],
        headers: Mapping[str, str] | None = None,
    ) -> RawCall:
        calls.append(RawCall(gateway, key, body, headers))
        return calls[-1]

    yield start
    for one in calls:
        one.close()


@pytest.fixture
def stage(
    gateway_settings: Settings,
    table: ModuleTable,
    registered_base: None,
    customer: Tenant,
    call: CallFactory,
) -> "Stage":
    from tests.api.stages import Stage

    return Stage(gateway_settings, table, customer, call)
