import pytest
from sqlalchemy.engine import make_url

from loraplex.platform.embedded.postgres import Postgres
from loraplex.platform.settings import Settings


@pytest.fixture
def services_url(services: Settings) -> str:
    """The URL of role `app`."""
    assert services.database_url is not None
    return services.database_url.get_secret_value()


@pytest.fixture
def readonly_url(services: Settings) -> str:
    assert services.database_readonly_url is not None
    return services.database_readonly_url.get_secret_value()


@pytest.fixture
def postgres_superuser_url(services: Settings) -> str:
    """The URL of the server's own superuser, for what no role of ours may do."""
    assert services.database_url is not None
    port = make_url(services.database_url.get_secret_value()).port
    assert port is not None
    return Postgres(services.data_dir / "postgres", port).superuser_url
