"""Seeds a new installation: an admin key and, for the demo, two tenants with two adapters each.

Runs at every start and changes nothing that is already so. Keys are stored as hashes, so they
live in `credentials.json` alone: keys that are missing there are made anew, and those they replace
are revoked.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loraplex.adapters_registry.errors import DemoAdapterRejected, DemoAdapterUnfinished
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.adapters_registry.versions.models import VersionStatus
from loraplex.adapters_registry.versions.service import Catalogue, register_base
from loraplex.adapters_registry.versions.views import VersionView
from loraplex.engine.protocol.describe import load_or_describe, locate_model
from loraplex.platform.database.sessions import Database
from loraplex.platform.embedded.private_files import write_private
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import MissingSetting, Settings
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.errors import InvalidKey, TenantNotFound
from loraplex.platform.tenancy.models import ApiKey, OperatorKey, Tenant
from loraplex.platform.tenancy.principals import OperatorPrincipal, Principal, TenantPrincipal
from loraplex.platform.tenancy.service import Authenticator

DEMO_TENANTS: Mapping[str, Sequence[str]] = {
    "acme": ("pirate", "json"),
    "globex": ("shout", "bullets"),
}
KEY_NAME = "loraplex serve"
CREDENTIALS_FILE = "credentials.json"
LOOPBACK = "127.0.0.1"
READY_SECONDS = 120.0
READY_PAUSE_SECONDS = 0.1


def run(settings: Settings | None = None) -> None:
    """Make what is missing and write the credentials file, once every demo adapter is ready.

    Raises MissingSetting, DemoAdapterRejected, DemoAdapterUnfinished, and what uploads raise.
    """
    asyncio.run(_run(settings or Settings()))


async def _run(settings: Settings) -> None:
    demo = Demo.open(settings)
    try:
        await demo.seed()
    finally:
        await demo.close()


def adapters_dir() -> Path:
    """The folders of the demo's adapters: beside this module in a wheel, else in the checkout."""
    here = Path(__file__).resolve()
    places = (here.parent / "demo_adapters", here.parents[3] / "tests" / "fixtures" / "adapters")
    for place in places:
        if place.is_dir():
            return place
    raise FileNotFoundError(f"no demo adapters in {' or '.join(map(str, places))}")


@dataclass(frozen=True)
class Demo:
    """What seeding needs: both roles of the database, the store, and the keys' secret."""

    settings: Settings
    app: Database
    system: Database
    administration: TenantAdministration
    authenticator: Authenticator
    uploads: Uploads
    catalogue: Catalogue

    @classmethod
    def open(cls, settings: Settings) -> "Demo":
        app = Database(_url(settings, "database_url"), pool_size=4)
        system = Database(_url(settings, "database_system_url"), pool_size=1)
        secrets = SecretKeys.from_settings(settings)
        base_name = _module_table(settings).base_name
        store = ObjectStore.from_settings(settings)
        return cls(
            settings,
            app,
            system,
            TenantAdministration(secrets),
            Authenticator(app, secrets),
            Uploads(app, store, base_name, settings.max_upload_bytes),
            Catalogue(),
        )

    async def close(self) -> None:
        await self.app.dispose()
        await self.system.dispose()

    async def seed(self) -> None:
        async with self.system.unit_of_work() as session:
            await register_base(session, _module_table(self.settings))
        known = read_credentials(self.settings.data_dir / CREDENTIALS_FILE)
        admin_key, _ = await self.admin(known)
        tenants = DEMO_TENANTS if self.settings.demo else {}
        seeded = [await self.tenant(name, known) for name in DEMO_TENANTS if name in tenants]
        await asyncio.gather(
            *(
                self.push(principal, adapter)
                for _, principal in seeded
                for adapter in tenants[principal.tenant_name]
            )
        )
        credentials = {
            "base_url": self.settings.local_url,
            "admin": {"api_key": admin_key},
            "tenants": {
                principal.tenant_name: {
                    "api_key": key,
                    "adapters": list(tenants[principal.tenant_name]),
                }
                for key, principal in seeded
            },
        }
        text = json.dumps(credentials, indent=2) + "\n"
        write_private(self.settings.data_dir / CREDENTIALS_FILE, text)

    async def admin(self, known: Mapping[str, Any]) -> tuple[str, OperatorPrincipal]:
        """The operator's key from the file while it is valid, else a new one."""
        key = known.get("admin", {}).get("api_key", "")
        principal = await self.whose(key)
        if isinstance(principal, OperatorPrincipal):
            return key, principal
        async with self.system.unit_of_work() as session:
            for old in await self.administration.list_operator_keys(session):
                await self.revoke(old)
            _, key = await self.administration.create_operator_key(session, KEY_NAME)
        principal = await self.whose(key)
        assert isinstance(principal, OperatorPrincipal), "a new operator key is an operator's"
        return key, principal
