"""A key that is revoked at one gateway is refused by every other one within five seconds."""

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import update
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.serving.server import WorkerServer
from loraplex.platform.database.changes import APPLICATION_NAME
from loraplex.platform.embedded.postgres import Postgres
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.models import Tenant as TenantRow
from loraplex.platform.tenancy.models import TenantState
from tests.api.conftest import Tenant, in_system, new_tenant
from tests.api.running import RunningGateway, running_gateway

WITHIN_SECONDS = 5.0
CALLERS = 4
REFUSED = {401, 429}
"""Many invalid keys from one address are answered with 429."""
BODY = {"prompt": "to be or", "max_tokens": 4, "temperature": 0}


@pytest.fixture(scope="module")
def other(
    gateway_settings: Settings, worker: WorkerServer, registered_base: None
) -> Iterator[RunningGateway]:
    with running_gateway(gateway_settings) as gateway:
        yield gateway


@pytest.fixture
def postgres(gateway_settings: Settings) -> Iterator[psycopg.Connection]:
    """The server's own superuser."""
    assert gateway_settings.database_url is not None
    port = make_url(gateway_settings.database_url.get_secret_value()).port
    assert port is not None
    url = Postgres(gateway_settings.data_dir / "postgres", port).superuser_url
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@dataclass
class Load:
    """Calls of one key at one gateway, as fast as they are answered, from several threads."""

    gateway: RunningGateway
    key: str
    model: str
    address: str
    """The client's, so that one test's refused calls are not counted to another's."""
    answers: list[tuple[float, int]] = field(default_factory=list)
    """When each call was sent, and its status."""
    has_ended: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> "Load":
        self.threads = [threading.Thread(target=self._call) for _ in range(CALLERS)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.has_ended.set()
        for thread in self.threads:
            thread.join()

    def _call(self) -> None:
        with self.gateway.client(self.key, address=self.address) as client:
            while not self.has_ended.is_set():
                sent_at = time.monotonic()
                answer = client.post("/v1/completions", json=BODY | {"model": self.model})
                self.answers.append((sent_at, answer.status_code))

    def wait_for(self, statuses: set[int], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.answers and self.answers[-1][1] in statuses:
                return
            self.has_ended.wait(0.02)
        raise AssertionError(f"no {statuses} within {seconds} s: {self.answers[-3:]}")


def new_key(owner: httpx.Client) -> dict[str, Any]:
    made: dict[str, Any] = owner.post(
        "/api/v1/keys", json={"name": "loaded", "scopes": ["models.call"]}
    ).json()
    return made


def revoke_under_load(
    gateway: RunningGateway, other: RunningGateway, tenant: Tenant, model: str, address: str
) -> float:
    """How many seconds after the revocation's answer the last call was still let in."""
    with gateway.client(tenant.key) as owner:
        key = new_key(owner)
        called = (key["api_key"], model, address)
        with Load(gateway, *called), Load(other, *called) as load:
            load.wait_for({200}, 30)
            assert owner.delete(f"/api/v1/keys/{key['id']}").status_code == 204
            revoked_at = time.monotonic()
            load.wait_for(REFUSED, WITHIN_SECONDS + 1)
            load.has_ended.wait(0.5)
    let_in = [sent_at for sent_at, status in load.answers if status == 200]
    assert {status for sent_at, status in load.answers if sent_at > max(let_in)} <= REFUSED
    return max(0.0, max(let_in) - revoked_at)


def end_listening(postgres: psycopg.Connection) -> int:
    """Cut every gateway's LISTEN connection; how many there were."""
    ended = postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
        [APPLICATION_NAME],
    )
    return len(ended.fetchall())


def test_a_revocation_reaches_the_other_gateway_under_load(
    gateway: RunningGateway, other: RunningGateway, gateway_settings: Settings, table: ModuleTable
) -> None:
    tenant = new_tenant(gateway_settings, max_concurrent_requests=64)
    late = revoke_under_load(gateway, other, tenant, table.base_name, "127.0.0.91")
    assert late < WITHIN_SECONDS


def test_so_it_does_while_no_gateway_can_listen(
    gateway: RunningGateway,
    other: RunningGateway,
    gateway_settings: Settings,
    table: ModuleTable,
    postgres: psycopg.Connection,
) -> None:
    tenant = new_tenant(gateway_settings, max_concurrent_requests=64)
    is_over, cut = threading.Event(), []

    def keep_cutting() -> None:
        while not is_over.wait(0.05):
            cut.append(end_listening(postgres))

    cutting = threading.Thread(target=keep_cutting)
    cutting.start()
    try:
        late = revoke_under_load(gateway, other, tenant, table.base_name, "127.0.0.92")
    finally:
        is_over.set()
        cutting.join()
    assert late < WITHIN_SECONDS
    assert sum(cut) >= 2


def test_so_it_does_though_nothing_is_heard_of_it(
    gateway: RunningGateway,
    other: RunningGateway,
    gateway_settings: Settings,
    table: ModuleTable,
    postgres: psycopg.Connection,
) -> None:
    tenant = new_tenant(gateway_settings, max_concurrent_requests=64)
    url = postgres.info.dsn.replace("dbname=postgres", "dbname=loraplex")
    with psycopg.connect(url, password=postgres.info.password, autocommit=True) as superuser:
        superuser.execute("ALTER TABLE api_keys DISABLE TRIGGER notify_change")
        try:
            late = revoke_under_load(gateway, other, tenant, table.base_name, "127.0.0.94")
        finally:
            superuser.execute("ALTER TABLE api_keys ENABLE TRIGGER notify_change")
    assert late < WITHIN_SECONDS


def test_a_suspended_tenant_and_a_disabled_key_are_refused_everywhere_too(
    gateway: RunningGateway,
    other: RunningGateway,
    customer: Tenant,
    gateway_settings: Settings,
) -> None:
    async def suspend(session: AsyncSession) -> None:
        mine = update(TenantRow).where(TenantRow.name == customer.name)
        await session.execute(mine.values(state=TenantState.SUSPENDED))

    with gateway.client(customer.key) as owner:
        key = new_key(owner)
        with other.client(key["api_key"], address="127.0.0.93") as client:
            assert client.get("/v1/models").status_code == 200
            path = f"/api/v1/keys/{key['id']}"
            owner.patch(path, json={"is_disabled": True})
            assert wait_for_status(client, 401) < WITHIN_SECONDS
            owner.patch(path, json={"is_disabled": False})
            assert wait_for_status(client, 200) < WITHIN_SECONDS
            asyncio.run(in_system(gateway_settings, suspend))
            assert wait_for_status(client, 403) < WITHIN_SECONDS


def wait_for_status(client: httpx.Client, status: int) -> float:
    """How many seconds it takes until a call is answered so."""
    begun = time.monotonic()
    while client.get("/v1/models").status_code != status:
        assert time.monotonic() - begun < WITHIN_SECONDS + 1, f"no {status}"
    return time.monotonic() - begun
