"""Tenants as many routes want them."""

from collections.abc import Iterator

import pytest

from loraplex.platform.settings import Settings
from tests.api.conftest import new_tenant
from tests.api.running import RunningGateway
from tests.api.tenant.owners import Owner


@pytest.fixture(scope="module")
def owner(
    gateway: RunningGateway, gateway_settings: Settings, registered_base: None
) -> Iterator[Owner]:
    """A tenant whose adapter `support` has two ready versions; each test has aliases of its own."""
    tenant = new_tenant(gateway_settings)
    with gateway.client(tenant.key) as client:
        owner = Owner(tenant.name, client)
        owner.upload(gateway_settings, "support", "pirate", "shout")
        yield owner
