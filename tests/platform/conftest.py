"""What tests of commands share: an operator's environment."""

import pytest

from loraplex.platform.settings import Settings


@pytest.fixture
def operators_environment(services: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database across tenants and the secret key, as an operator's shell has them."""
    assert services.database_system_url is not None
    assert services.secret_key is not None
    url = services.database_system_url.get_secret_value()
    monkeypatch.setenv("LORAPLEX_DATABASE_SYSTEM_URL", url)
    monkeypatch.setenv("LORAPLEX_SECRET_KEY", services.secret_key.get_secret_value())
