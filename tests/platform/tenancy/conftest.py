from uuid import uuid4

import pytest

from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import TenantAdministration


@pytest.fixture
def secret_keys(services: Settings) -> SecretKeys:
    return SecretKeys.from_settings(services)


@pytest.fixture
def administration(secret_keys: SecretKeys) -> TenantAdministration:
    return TenantAdministration(secret_keys)


@pytest.fixture
def name() -> str:
    """A tenant's name that no other test has."""
    return f"t-{uuid4().hex}"
