"""Decides which services of a data directory are embedded, and completes the settings with them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loraplex.platform.embedded.errors import IncompleteSettings
from loraplex.platform.embedded.objects import Objects
from loraplex.platform.embedded.ports import LOOPBACK, PortBook
from loraplex.platform.embedded.postgres import Postgres
from loraplex.platform.embedded.private_files import new_secret, write_private
from loraplex.platform.embedded.processes import Service
from loraplex.platform.embedded.valkey import Valkey
from loraplex.platform.settings import Settings

URL_SETTING = {
    "loraplex_app": "database_url",
    "loraplex_migrator": "database_migrator_url",
    "loraplex_system": "database_system_url",
    "loraplex_readonly": "database_readonly_url",
}
"""The setting of each role's URL."""
DATABASE_SETTINGS = ("database_url", "database_migrator_url", "database_system_url")


@dataclass(frozen=True)
class OwnServices:
    """The embedded services that a start needs; None where the settings name an external one."""

    postgres: Postgres | None
    valkey: Valkey | None
    objects: Objects | None
    controller_port: int

    def children(self) -> list[Service]:
        return [child for child in (self.postgres, self.valkey, self.objects) if child is not None]

    def complete(self, settings: Settings) -> Settings:
        """The settings with the address of every embedded service."""
        found: dict[str, Any] = {
            "internal_port": self.controller_port,
            "internal_url": f"http://{LOOPBACK}:{self.controller_port}",
        }
        if self.postgres is not None:
            passwords = role_passwords(self.postgres.folder)
            found |= {
                setting: self.postgres.url(role, passwords[role])
                for role, setting in URL_SETTING.items()
            }
        if self.valkey is not None:
            found["broker_url"] = self.valkey.url
        if self.objects is not None:
            found |= {
                "s3_endpoint": self.objects.endpoint,
                "s3_access_key_id": self.objects.access_key_id,
                "s3_secret_access_key": self.objects.secret_access_key,
            }
        return type(settings).model_validate(settings.model_dump() | found)

    def make_roles(self) -> None:
        """Make the database and its roles, once PostgreSQL answers."""
        from loraplex.platform.database.roles import create_roles

        if self.postgres is not None:
            create_roles(self.postgres.superuser_url, role_passwords(self.postgres.folder))


def own_services(settings: Settings) -> OwnServices:
    """What to embed under the data directory. Raises IncompleteSettings."""
    data_dir = settings.data_dir
    ports = PortBook(data_dir / "run" / "ports.json")
    has_postgres = not _has_external_database(settings)
    has_objects = settings.s3_endpoint is None
    return OwnServices(
        postgres=Postgres(data_dir / "postgres", ports.port("postgres")) if has_postgres else None,
        valkey=(
            Valkey(data_dir / "valkey", ports.port("valkey"))
            if settings.broker_url is None
            else None
        ),
        objects=(
            Objects(
                data_dir / "objects",
                ports.port("objects"),
                bucket=settings.s3_bucket,
                region=settings.s3_region,
            )
            if has_objects
            else None
        ),
        controller_port=settings.internal_port or ports.port("controller"),
    )


def role_passwords(folder: Path) -> Mapping[str, str]:
    """The passwords of the embedded database's roles, made at the first start."""
    file = folder / "role_passwords.json"
    try:
        passwords: dict[str, str] = json.loads(file.read_text())
    except FileNotFoundError:
        passwords = {}
    if missing := [role for role in URL_SETTING if role not in passwords]:
        passwords |= {role: new_secret() for role in missing}
        write_private(file, json.dumps(passwords))
    return passwords


def _has_external_database(settings: Settings) -> bool:
    given = [name for name in DATABASE_SETTINGS if getattr(settings, name) is not None]
    missing = [f"LORAPLEX_{name.upper()}" for name in DATABASE_SETTINGS if name not in given]
    if given and missing:
        raise IncompleteSettings(
            f"A database of your own needs a URL for each role: {' and '.join(missing)} "
            "is not set.",
            field=missing[0],
            rule="all three database URLs, or none",
        )
    return bool(given)
