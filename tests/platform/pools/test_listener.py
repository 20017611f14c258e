"""The internal listener over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import uuid4

import httpx
import msgspec
import pytest
from sqlalchemy import func, literal

from loraplex.platform.database.sessions import Database
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.lifecycle.models import TenantDeletion
from loraplex.platform.pools.listener import create_listener
from loraplex.platform.pools.worker_token import worker_token
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.administration import TenantAdministration
from tests.platform.pools.registrations import a_registration


@asynccontextmanager
async def client(
    database: Database, secrets: SecretKeys, token: str | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    app = create_listener(database, secrets)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app, raise_app_exceptions=False),
        base_url="http://internal",
        headers={"Authorization": f"Bearer {token or worker_token(secrets)}"},
    ) as http:
        yield http


async def test_a_worker_registers_renews_and_leaves(
    system_database: Database, secret_keys: SecretKeys
) -> None:
    registration = a_registration()
    lease = f"/internal/workers/{registration.worker_id}/lease"
    mine = {"incarnation": registration.incarnation}
    async with client(system_database, secret_keys) as http:
        answer = await http.post("/internal/workers", content=msgspec.json.encode(registration))
        assert answer.json()["lease_seconds"] > 0
        assert (await http.put(lease, json=mine)).status_code == 200
        assert (await http.put(lease, json={"incarnation": "newer"})).status_code == 409
        left = await http.delete(f"/internal/workers/{registration.worker_id}", params=mine)
        assert left.status_code == 204
        assert (await http.put(lease, json=mine)).status_code == 404


async def deletion(system: Database, finished_ago: timedelta | None) -> str:
    """The namespace of a tenant whose deletion has finished so long ago, or has not."""
    administration = TenantAdministration(SecretKeys(["k" * 32]))
    async with system.unit_of_work() as session:
        tenant = await administration.create_tenant(session, f"t-{uuid4().hex}")
        deletion = TenantDeletion(
            tenant_id=tenant.id,
            namespace=tenant.namespace,
            requested_by="test",
            deadline_at=func.now(),
            finished_at=None if finished_ago is None else func.now() - literal(finished_ago),
        )
        session.add(deletion)
    return tenant.namespace


async def test_workers_hear_of_tenants_that_are_gone_and_newcomers_of_all_there_ever_were(
    system_database: Database, secret_keys: SecretKeys
) -> None:
    now = await deletion(system_database, timedelta(0))
    old = await deletion(system_database, timedelta(days=30))
    unfinished = await deletion(system_database, None)
    registration = a_registration()
    lease = f"/internal/workers/{registration.worker_id}/lease"
    async with client(system_database, secret_keys) as http:
        first = await http.post("/internal/workers", content=msgspec.json.encode(registration))
        again = await http.put(lease, json={"incarnation": registration.incarnation})
    assert {now, old} <= set(first.json()["gone"])
    assert unfinished not in first.json()["gone"]
    assert now in again.json()["gone"]
    assert not {old, unfinished} & set(again.json()["gone"])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/internal/workers"),
        ("PUT", "/internal/workers/w/lease"),
        ("DELETE", "/internal/workers/w?incarnation=i"),
    ],
)
async def test_only_the_platforms_own_workers_are_heard(
    system_database: Database, secret_keys: SecretKeys, method: str, path: str
) -> None:
    async with client(system_database, secret_keys, token="guessed") as http:
        assert (await http.request(method, path)).status_code == 401
        del http.headers["Authorization"]
        assert (await http.request(method, path)).status_code == 401


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"worker_id": 3}', b"\xff"])
async def test_what_cannot_be_read_is_refused(
    system_database: Database, secret_keys: SecretKeys, body: bytes
) -> None:
    async with client(system_database, secret_keys) as http:
        assert (await http.post("/internal/workers", content=body)).status_code == 400
        assert (await http.put("/internal/workers/w/lease", content=body)).status_code == 400


async def test_without_a_database_workers_are_told_to_come_back(secret_keys: SecretKeys) -> None:
    away = Database(f"postgresql://nobody@127.0.0.1:{free_port()}/nothing")
    async with client(away, secret_keys) as http:
        body = msgspec.json.encode(a_registration())
        assert (await http.post("/internal/workers", content=body)).status_code == 503
    await away.dispose()
