"""Tenants' lives over HTTP: made, renamed, suspended on every gateway, resumed, deleted."""

import asyncio
import io
import json
import tarfile
import time
from collections.abc import Iterator
from functools import partial
from uuid import UUID, uuid4

import httpx
import pytest

from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.tenants.exporting import Exporter
from loraplex.platform.database.sessions import Database
from loraplex.platform.lifecycle import service
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.principals import OperatorRole, Role
from tests.api.conftest import CallFactory, Tenant, new_tenant
from tests.api.people import accept, browser, join, new_email, operators_invitation
from tests.api.raw_calls import ENDLESS, ledger, reservations
from tests.api.running import RunningGateway, running_gateway
from tests.api.waiting import eventually

TENANTS = "/api/v1/admin/tenants"
PEOPLE = "/api/v1/admin/people"


@pytest.fixture
def operator(gateway: RunningGateway, operator_key: str) -> Iterator[httpx.Client]:
    with gateway.client(operator_key) as client:
        yield client


@pytest.fixture
def other_gateway(gateway: RunningGateway, gateway_settings: Settings) -> Iterator[RunningGateway]:
    with running_gateway(gateway_settings) as other:
        yield other


def answers(client: httpx.Client, status: int) -> bool:
    return client.get("/v1/models").status_code == status


def test_a_tenant_is_made_with_its_first_owner_and_renamed(
    operator: httpx.Client, gateway: RunningGateway
) -> None:
    name = f"t-{new_email()[:12]}"
    made = operator.post(TENANTS, json={"name": name, "display_name": "Tea & Co"})
    assert made.status_code == 201
    assert (made.json()["state"], made.json()["display_name"]) == ("active", "Tea & Co")
    again = operator.post(TENANTS, json={"name": name})
    assert (again.status_code, again.json()["code"]) == (409, "tenant_name_taken")
    by_id = operator.get(f"{TENANTS}/{made.json()['id']}")
    assert by_id.json() == operator.get(f"{TENANTS}/{name}").json()
    renamed = operator.patch(f"{TENANTS}/{name}", json={"display_name": "Tea"})
    assert (renamed.json()["name"], renamed.json()["display_name"]) == (name, "Tea")

    link = operator.post(f"{TENANTS}/{name}/members", json={"email": new_email(), "role": "owner"})
    with browser(gateway) as page:
        assert accept(page, link.json()["token"])["role"] == "owner"
    (member,) = operator.get(f"{TENANTS}/{name}/members").json()["data"]
    path = f"{TENANTS}/{name}/members/{member['id']}"
    assert operator.delete(path).json()["code"] == "last_owner"
    assert operator.patch(path, json={"role": "owner"}).json()["role"] == "owner"


def test_a_suspended_tenant_is_refused_on_every_gateway_and_its_calls_end(
    operator: httpx.Client,
    gateway: RunningGateway,
    other_gateway: RunningGateway,
    gateway_settings: Settings,
    customer: Tenant,
    call: CallFactory,
) -> None:
    running = [
        call(gateway, customer.key, ENDLESS | {"stream": True}),
        call(other_gateway, customer.key, ENDLESS | {"stream": True}),
    ]
    assert [one.answer().status for one in running] == [200, 200]
    order = {"reason": "The bill of May is open."}
    suspended = operator.post(f"{TENANTS}/{customer.name}/suspend", json=order)
    since = time.monotonic()
    assert (suspended.json()["state"], suspended.json()["state_reason"]) == (
        "suspended",
        order["reason"],
    )
    for place in (gateway, other_gateway):
        with place.client(customer.key) as client:
            eventually("the refusal", partial(answers, client, 403))
            refused = client.get("/v1/models")
        assert refused.json()["error"]["code"] == "tenant_suspended"
    for one in running:
        assert one.events()[-1]["error"]["code"] == "tenant_suspended"
    assert time.monotonic() - since < 5
    eventually("the settlement", lambda: reservations(gateway_settings, customer) == 0)
    assert {row.error_code for row in ledger(gateway_settings, customer)} == {"tenant_suspended"}

    operator.post(f"{TENANTS}/{customer.name}/resume").raise_for_status()
    for place in (gateway, other_gateway):
        with place.client(customer.key) as client:
            eventually("to be let in", partial(answers, client, 200))


def test_a_deletion_wants_the_name_and_lets_nobody_in(
    operator: httpx.Client, gateway: RunningGateway, gateway_settings: Settings
) -> None:
    doomed = new_tenant(gateway_settings)
    path = f"{TENANTS}/{doomed.name}"
    with browser(gateway) as page:
        join(page, gateway_settings, doomed, Role.OWNER)
        wrong = operator.request("DELETE", path, json={"confirm": "another"})
        assert (wrong.status_code, wrong.json()["code"]) == (400, "name_not_confirmed")
        answer = operator.request("DELETE", path, json={"confirm": doomed.name})
        assert answer.status_code == 202
        assert (answer.json()["state"], answer.json()["deletion"]["finished_at"]) == (
            "deleting",
            None,
        )
        again = operator.request("DELETE", path, json={"confirm": doomed.name})
        assert again.json() == answer.json()
        assert page.get("/api/v1/session").status_code == 401
    with gateway.client(doomed.key) as client:
        eventually("the refusal", lambda: client.get("/v1/models").status_code == 401)
    for change in (
        operator.post(f"{path}/resume"),
        operator.patch(path, json={"display_name": "x"}),
    ):
        assert (change.status_code, change.json()["code"]) == (409, "tenant_deleted")


async def written(settings: Settings, tenant_name: str, export_id: UUID) -> str:
    """Do what the job does; where the store has the archive."""
    assert settings.database_system_url is not None
    system = Database(settings.database_system_url.get_secret_value(), pool_size=1)
    store = ObjectStore.from_settings(settings)
    try:
        assert await Exporter(system, store, settings.data_dir / "exports").export(export_id)
        async with system.unit_of_work() as session:
            tenant = await service.find_tenant(session, tenant_name)
            return service.export_key(tenant.namespace, export_id)
    finally:
        await system.dispose()


def test_an_archive_is_downloaded_once_it_is_written_and_while_it_is_kept(
    operator: httpx.Client, gateway_settings: Settings, customer: Tenant
) -> None:
    path = f"{TENANTS}/{customer.name}/exports"
    asked = operator.post(path)
    assert (asked.status_code, asked.json()["status"]) == (202, "queued")
    one = f"{path}/{asked.json()['id']}"
    early = operator.get(f"{one}/download")
    assert (early.status_code, early.json()["code"]) == (409, "export_not_ready")
    key = asyncio.run(written(gateway_settings, customer.name, UUID(asked.json()["id"])))

    told = operator.get(one).json()
    assert (told["status"], told["tenant"]) == ("completed", customer.name)
    archive = operator.get(f"{one}/download")
    assert archive.headers["content-type"] == "application/gzip"
    day = told["created_at"][:10]
    assert archive.headers["content-disposition"] == (
        f'attachment; filename="{customer.name}-{day}.tar.gz"'
    )
    assert len(archive.content) == told["size_bytes"]
    with tarfile.open(fileobj=io.BytesIO(archive.content)) as files:
        described = files.extractfile("export.json")
        assert described is not None
        assert json.load(described)["tenant"] == customer.name

    ObjectStore.from_settings(gateway_settings).delete(key)  # a backup that comes back has none
    gone = operator.get(f"{one}/download")
    assert (gone.status_code, gone.json()["code"]) == (404, "export_not_found")
    assert operator.get(f"{path}/{uuid4()}/download").status_code == 404


def test_operators_are_invited_changed_and_refused(
    operator: httpx.Client, gateway: RunningGateway, gateway_settings: Settings
) -> None:
    with browser(gateway) as other:  # somebody must stay an admin
        accept(other, operators_invitation(gateway_settings, new_email(), OperatorRole.ADMIN))
    email = new_email()
    link = operator.post(PEOPLE, json={"email": email, "operator_role": "admin"})
    assert link.status_code == 201
    with browser(gateway) as page:
        session = accept(page, link.json()["token"])
        assert session["kind"] == "operator"
        path = f"{PEOPLE}/{session['person']['id']}"
        shown = operator.get(path).json()
        assert (shown["email"], shown["operator_role"], shown["tenants"]) == (email, "admin", [])
        assert page.patch(path, json={"operator_role": "admin_viewer"}).is_success
        eventually("the lesser role", lambda: page.patch(path, json={}).status_code == 403)
        assert page.get(PEOPLE).status_code == 200
        reset = operator.post(f"{path}/reset-password")
        with browser(gateway) as other:
            look = other.post(
                "/api/v1/session/invitation/look", json={"token": reset.json()["token"]}
            )
            assert look.json()["kind"] == "password"
        operator.patch(path, json={"is_disabled": True}).raise_for_status()
        assert page.get("/api/v1/session").status_code == 401


def test_a_viewer_changes_no_tenant(gateway: RunningGateway, gateway_settings: Settings) -> None:
    token = operators_invitation(gateway_settings, new_email(), OperatorRole.ADMIN_VIEWER)
    with browser(gateway) as page:
        accept(page, token)
        assert page.get(TENANTS).status_code == 200
        for method, path in (
            ("POST", TENANTS),
            ("POST", f"{TENANTS}/t/suspend"),
            ("DELETE", f"{TENANTS}/t"),
            ("POST", PEOPLE),
        ):
            assert page.request(method, path, json={}).status_code == 403
