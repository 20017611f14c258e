"""The embedded services of a data directory: those that serve now, or started for the purpose."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from loraplex.platform.backup.errors import NotEmbedded
from loraplex.platform.embedded.data_directory import held
from loraplex.platform.embedded.errors import DataDirInUse
from loraplex.platform.embedded.objects import Objects
from loraplex.platform.embedded.own_services import own_services
from loraplex.platform.embedded.postgres import Postgres
from loraplex.platform.embedded.processes import running
from loraplex.platform.settings import Settings

Services = tuple[Postgres, Objects]


@contextmanager
def reached(data_dir: Path) -> Iterator[tuple[Settings, Services]]:
    """The database and the object store of an installation, for as long as the block runs.

    Where `loraplex serve` runs they are its own; else they are started, and stopped at the end.
    Raises NotEmbedded.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(held(data_dir, lambda _: None))
        except DataDirInUse:
            settings = Settings(data_dir=data_dir)
            yield settings, of_running(settings)
            return
        settings = Settings(data_dir=data_dir)
        services = embedded(settings)
        for service in services:
            stack.enter_context(running(service, data_dir / "logs"))
        yield settings, services


def of_running(settings: Settings) -> Services:
    """The services whose addresses a running `loraplex serve` has written."""
    folder, data_dir = settings.data_dir / "postgres", settings.data_dir
    database, store = settings.database_url, settings.s3_endpoint
    is_ours = (folder / "data").is_dir() and (data_dir / "objects").is_dir()
    if not is_ours or database is None or store is None:
        raise not_embedded()
    return (
        Postgres(folder, _port(database.get_secret_value())),
        Objects(data_dir / "objects", _port(store), settings.s3_bucket, settings.s3_region),
    )


def embedded(settings: Settings) -> Services:
    """The services that a start on this directory would embed."""
    services = own_services(settings)
    if services.postgres is None or services.objects is None:
        raise not_embedded()
    return services.postgres, services.objects


def not_embedded() -> NotEmbedded:
    return NotEmbedded(
        "The database and the object store are not both embedded in this data directory. Back up "
        "yours by their own means: the database with pg_dump, and the bucket's `tenants/` after it."
    )


def _port(url: str) -> int:
    port = urlsplit(url).port
    if port is None:
        raise not_embedded()
    return port
