"""The real embedded services, once a test run: PostgreSQL, Valkey and S3 on free ports."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from loraplex.platform.database.migrate import upgrade
from loraplex.platform.database.roles import APP, MIGRATOR, READONLY, ROLES, SYSTEM, create_roles
from loraplex.platform.database.sessions import Database
from loraplex.platform.embedded.objects import Objects
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.embedded.postgres import Postgres
from loraplex.platform.embedded.private_files import new_secret
from loraplex.platform.embedded.processes import running
from loraplex.platform.embedded.valkey import Valkey
from loraplex.platform.settings import Settings
from tests.soak import SOAK, SOAK_SECONDS

pytest_plugins = ["tests.base_model"]

# A busy machine is no failure, so no example has a deadline; pytest's timeout ends what hangs.
# The sample is the same in every run: what is new is looked for in soaks, where somebody looks on.
settings.register_profile("sample", deadline=None, max_examples=50, derandomize=True)
settings.register_profile("soak", deadline=None, max_examples=5000)
settings.load_profile("soak" if SOAK else "sample")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In a soak a test's own limit, which is for the sample, would end it in the middle."""
    for item in items if SOAK else []:
        item.add_marker(pytest.mark.timeout(SOAK_SECONDS), append=False)


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings with every address filled: roles made, schema migrated, bucket made."""
    data_dir: Path = tmp_path_factory.mktemp("loraplex")
    postgres = Postgres(data_dir / "postgres", free_port(), durable=False)
    valkey = Valkey(data_dir / "valkey", free_port())
    objects = Objects(data_dir / "objects", free_port())
    with ExitStack() as stack:
        for service in (postgres, valkey, objects):
            stack.enter_context(running(service, data_dir / "logs"))
        values: dict[str, Any] = {
            "data_dir": data_dir,
            "secret_key": new_secret(),
            "broker_url": valkey.url,
            "s3_endpoint": objects.endpoint,
            "s3_region": objects.region,
            "s3_bucket": objects.bucket,
            "s3_access_key_id": objects.access_key_id,
            "s3_secret_access_key": objects.secret_access_key,
        }
        yield Settings(**values, **role_urls(postgres))


def role_urls(postgres: Postgres) -> dict[str, Any]:
    """Make the four roles and the schema; the URL settings by role."""
    passwords = {role: new_secret() for role in ROLES}
    create_roles(postgres.superuser_url, passwords)
    urls = {role: postgres.url(role, passwords[role]) for role in ROLES}
    upgrade(urls[MIGRATOR])
    return {
        "database_url": urls[APP],
        "database_migrator_url": urls[MIGRATOR],
        "database_system_url": urls[SYSTEM],
        "database_readonly_url": urls[READONLY],
    }


@pytest.fixture
async def database(services: Settings) -> AsyncIterator[Database]:
    """The database as a gateway sees it: row-level security applies."""
    assert services.database_url is not None
    database = Database(services.database_url.get_secret_value())
    yield database
    await database.dispose()


@pytest.fixture
async def system_database(services: Settings) -> AsyncIterator[Database]:
    """The database as background jobs and operators see it."""
    assert services.database_system_url is not None
    database = Database(services.database_system_url.get_secret_value())
    yield database
    await database.dispose()
