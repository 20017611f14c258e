from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import select, update

from loraplex.platform.database.pages import PageRequest
from loraplex.platform.database.sessions import Database
from loraplex.platform.outbound.errors import AddressInvalid, AddressNotPublic
from loraplex.platform.outbound.rules import OutboundRules
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.webhooks.endpoints import MAX_ENDPOINTS, Webhooks
from loraplex.platform.webhooks.errors import (
    TooManyWebhooks,
    WebhookDisabled,
    WebhookNotFound,
)
from loraplex.platform.webhooks.event_types import EventType
from loraplex.platform.webhooks.events import emit
from loraplex.platform.webhooks.models import WebhookEndpoint
from loraplex.platform.webhooks.views import EndpointView
from tests.platform.webhooks.conftest import told

URL = "https://hooks.example/loraplex"


@pytest.fixture
def webhooks(services: Settings) -> Webhooks:
    return Webhooks(SecretKeys.from_settings(services), OutboundRules())


async def create(
    webhooks: Webhooks, database: Database, tenant_id: TenantId, *event_types: EventType
) -> tuple[EndpointView, str]:
    async with database.unit_of_work(tenant_id) as session:
        return await webhooks.create(
            session, tenant_id, url=URL, description="ours", event_types=event_types
        )


async def stored(database: Database, tenant_id: TenantId) -> WebhookEndpoint:
    async with database.unit_of_work(tenant_id) as session:
        return (await session.scalars(select(WebhookEndpoint))).one()


async def test_a_secret_is_told_once_and_stored_sealed(
    webhooks: Webhooks, database: Database, tenant_id: TenantId
) -> None:
    view, secret = await create(webhooks, database, tenant_id, EventType.ALIAS_MOVED)
    assert secret.startswith("whsec_")
    assert (view.url, view.event_types, view.is_enabled) == (URL, ("alias.moved",), True)
    row = await stored(database, tenant_id)
    assert secret.encode() not in row.sealed_secret
    assert secret not in repr(view)
    async with database.unit_of_work(tenant_id) as session:
        assert await webhooks.get(session, tenant_id, view.id) == view
        page = await webhooks.page(session, tenant_id, PageRequest())
    assert page.items == [view]


@pytest.mark.parametrize(
    "url", ["http://hooks.example", "https://hooks.example:8443", "https://u:p@hooks.example", "x"]
)
async def test_an_address_that_would_never_be_called_is_refused(
    url: str, webhooks: Webhooks, database: Database, tenant_id: TenantId
) -> None:
    view, _ = await create(webhooks, database, tenant_id)
    async with database.unit_of_work(tenant_id) as session:
        with pytest.raises(AddressInvalid):
            await webhooks.create(session, tenant_id, url=url, description="", event_types=())
        with pytest.raises(AddressInvalid):
            await webhooks.change(session, tenant_id, view.id, url=url)


async def test_a_private_address_is_refused(
    webhooks: Webhooks, database: Database, tenant_id: TenantId
) -> None:
    async with database.unit_of_work(tenant_id) as session:
        with pytest.raises(AddressNotPublic):
            await webhooks.create(
                session, tenant_id, url="https://169.254.169.254/", description="", event_types=()
            )


async def test_a_neighbours_endpoint_is_not_there(
    webhooks: Webhooks, database: Database, tenant_id: TenantId, neighbour_id: TenantId
) -> None:
    view, _ = await create(webhooks, database, neighbour_id)
    async with database.unit_of_work(tenant_id) as session:
        assert (await webhooks.page(session, tenant_id, PageRequest())).items == []
        for call in (
            webhooks.get(session, tenant_id, view.id),
            webhooks.change(session, tenant_id, view.id, description="stolen"),
            webhooks.rotate_secret(session, tenant_id, view.id, timedelta()),
            webhooks.test(session, tenant_id, view.id),
            webhooks.delete(session, tenant_id, view.id),
        ):
            with pytest.raises(WebhookNotFound):
                await call
    async with database.unit_of_work(neighbour_id) as session:
        assert await webhooks.get(session, neighbour_id, view.id) == view


async def test_a_rotation_keeps_the_old_secret_for_the_overlap_and_no_older_one(
    webhooks: Webhooks, database: Database, tenant_id: TenantId
) -> None:
    view, first = await create(webhooks, database, tenant_id)

    def opened(sealed: bytes) -> str:
        return webhooks.secrets.decrypt("webhook", sealed).decode()

    async with database.unit_of_work(tenant_id) as session:
        rotated, second = await webhooks.rotate_secret(
            session, tenant_id, view.id, timedelta(hours=1)
        )
    assert rotated.previous_secret_expires_at is not None
    wait = rotated.previous_secret_expires_at - datetime.now(UTC)
    assert timedelta(minutes=58) < wait < timedelta(minutes=61)
    row = await stored(database, tenant_id)
    assert row.previous_sealed_secret is not None
    assert (opened(row.sealed_secret), opened(row.previous_sealed_secret)) == (second, first)
    async with database.unit_of_work(tenant_id) as session:
        _, third = await webhooks.rotate_secret(session, tenant_id, view.id, timedelta())
    row = await stored(database, tenant_id)
    assert (opened(row.sealed_secret), row.previous_sealed_secret) == (third, None)


async def test_disabling_cancels_what_was_on_its_way_and_enabling_counts_anew(
    webhooks: Webhooks, database: Database, system_database: Database, tenant_id: TenantId
) -> None:
    view, _ = await create(webhooks, database, tenant_id)
    async with database.unit_of_work(tenant_id) as session:
        await emit(session, tenant_id, EventType.ALIAS_MOVED, {})
        await session.execute(update(WebhookEndpoint).values(consecutive_failures=3))
    async with database.unit_of_work(tenant_id) as session:
        off = await webhooks.change(session, tenant_id, view.id, is_enabled=False)
        assert (off.is_enabled, off.disabled_reason) == (False, "tenant")
        assert off.disabled_at is not None
        with pytest.raises(WebhookDisabled):
            await webhooks.test(session, tenant_id, view.id)
    assert [one.status for one in await told(system_database, tenant_id)] == ["cancelled"]
    async with database.unit_of_work(tenant_id) as session:
        on = await webhooks.change(session, tenant_id, view.id, is_enabled=True)
    assert (on.is_enabled, on.disabled_reason, on.consecutive_failures) == (True, None, 0)


async def test_changes_leave_the_rest_as_it_was(
    webhooks: Webhooks, database: Database, tenant_id: TenantId
) -> None:
    view, _ = await create(webhooks, database, tenant_id, EventType.ALIAS_MOVED)
    async with database.unit_of_work(tenant_id) as session:
        changed = await webhooks.change(session, tenant_id, view.id, description="theirs")
        assert (changed.url, changed.event_types) == (view.url, view.event_types)
        changed = await webhooks.change(session, tenant_id, view.id, event_types=[])
        assert (changed.description, changed.event_types) == ("theirs", ())


async def test_a_deleted_endpoint_takes_its_deliveries_with_it(
    webhooks: Webhooks, database: Database, system_database: Database, tenant_id: TenantId
) -> None:
    view, _ = await create(webhooks, database, tenant_id)
    async with database.unit_of_work(tenant_id) as session:
        await emit(session, tenant_id, EventType.ALIAS_MOVED, {})
    async with database.unit_of_work(tenant_id) as session:
        await webhooks.delete(session, tenant_id, view.id)
        with pytest.raises(WebhookNotFound):
            await webhooks.delete(session, tenant_id, view.id)
    assert await told(system_database, tenant_id) == []


async def test_a_tenant_has_so_many_endpoints_and_no_more(
    webhooks: Webhooks, database: Database, tenant_id: TenantId
) -> None:
    for _ in range(MAX_ENDPOINTS):
        await create(webhooks, database, tenant_id)
    with pytest.raises(TooManyWebhooks):
        await create(webhooks, database, tenant_id)


async def test_what_never_was_is_not_found(
    webhooks: Webhooks, database: Database, tenant_id: TenantId
) -> None:
    async with database.unit_of_work(tenant_id) as session:
        with pytest.raises(WebhookNotFound):
            await webhooks.get(session, tenant_id, uuid4())
