"""Seeds a new installation: an admin key and, for the demo, two tenants with two adapters each.

Runs at every start and changes nothing that is already so. Keys are stored as hashes, so they
live in `credentials.json` alone: keys that are missing there are made anew, and those they replace
are revoked.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.errors import DemoAdapterRejected, DemoAdapterUnfinished
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.adapters_registry.versions.models import VersionStatus
from loraplex.adapters_registry.versions.service import Catalogue, register_base
from loraplex.engine.protocol.describe import load_or_describe, locate_model
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.platform.database.sessions import Database
from loraplex.platform.embedded.private_files import write_private
from loraplex.platform.people.administration import FIRST_ADMIN, PeopleAdministration
from loraplex.platform.people.invitations import Invitations, link_path
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import MissingSetting, Settings
from loraplex.platform.switches.errors import UploadsOff
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.errors import InvalidKey, TenantNotFound, TooManyFailures
from loraplex.platform.tenancy.key_views import KeyView
from loraplex.platform.tenancy.keys import kind_of
from loraplex.platform.tenancy.principals import OperatorPrincipal, Principal, TenantPrincipal
from loraplex.platform.tenancy.service import Authenticator

DEMO_TENANTS: Mapping[str, Sequence[str]] = {
    "acme": ("pirate", "json"),
    "globex": ("shout", "bullets"),
}
DEMO_BASE = "smollm2-135m-instruct"
"""What the demo's adapters were trained for; on another base the tenants begin with none."""
KEY_NAME = "loraplex serve"
CREDENTIALS_FILE = "credentials.json"
LOOPBACK = "127.0.0.1"
READY_SECONDS = 120.0
READY_PAUSE_SECONDS = 0.1

log = structlog.get_logger(__name__)


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
    """What seeding needs: both roles of the database, the way in for uploads, and the secret."""

    settings: Settings
    app: Database
    system: Database
    administration: TenantAdministration
    people: PeopleAdministration
    authenticator: Authenticator
    uploads: Uploads
    table: ModuleTable

    @classmethod
    def open(cls, settings: Settings) -> "Demo":
        app = Database(_url(settings.database_url, "LORAPLEX_DATABASE_URL"))
        system_url = _url(settings.database_system_url, "LORAPLEX_DATABASE_SYSTEM_URL")
        secrets = SecretKeys.from_settings(settings)
        model_dir = locate_model(settings.model, settings.models_dir)
        table = load_or_describe(model_dir, None, settings.data_dir / "cache" / "models")
        store = ObjectStore.from_settings(settings)
        return cls(
            settings,
            app,
            Database(system_url, pool_size=1),
            TenantAdministration(secrets),
            PeopleAdministration(Invitations(secrets)),
            Authenticator(app, secrets),
            Uploads(app, store, table.base_name, settings.max_upload_bytes),
            table,
        )

    async def close(self) -> None:
        await self.app.dispose()
        await self.system.dispose()

    async def seed(self) -> None:
        file = self.settings.data_dir / CREDENTIALS_FILE
        known = _read(file)
        async with self.system.unit_of_work() as session:
            await register_base(session, self.table)
        credentials: dict[str, Any] = {
            "base_url": self.settings.local_url,
            "admin": {"api_key": await self.admin_key(known), **await self.first_admin(known)},
            "tenants": {},
        }
        pushes = []
        has_adapters = self.table.base_name == DEMO_BASE
        for name, trained in DEMO_TENANTS.items():
            adapters = trained if has_adapters else ()
            if not self.settings.demo:
                await self.revoke_tenant_keys(name)
                continue
            key, principal = await self.tenant_key(name, known)
            credentials["tenants"][name] = {"api_key": key, "adapters": list(adapters)}
            pushes += [self.push(principal, adapter) for adapter in adapters]
        await asyncio.gather(*pushes)
        write_private(file, json.dumps(credentials, indent=2) + "\n")

    async def admin_key(self, known: Mapping[str, Any]) -> str:
        """The file's operator key while it is valid, else a new one."""
        key: str = known.get("admin", {}).get("api_key", "")
        if isinstance(await self.whose(key), OperatorPrincipal):
            return key
        async with self.system.unit_of_work() as session:
            await self.revoke(session, await self.administration.list_operator_keys(session))
            _, key = await self.administration.create_operator_key(session, KEY_NAME)
        return key

    async def first_admin(self, known: Mapping[str, Any]) -> dict[str, str]:
        """Where the first person among the operators chooses a password, until one has."""
        token = known.get("admin", {}).get("link", "").partition("#")[2] or None
        async with self.system.unit_of_work() as session:
            token = await self.people.invite_first_admin(session, token)
        if token is None:
            return {}
        return {
            "email": FIRST_ADMIN,
            "link": f"{self.settings.public_address}{link_path(token)}",
        }

    async def tenant_key(self, name: str, known: Mapping[str, Any]) -> tuple[str, TenantPrincipal]:
        """The file's key of this tenant while it is valid, else a new one; and whose it is."""
        key: str = known.get("tenants", {}).get(name, {}).get("api_key", "")
        principal = await self.whose(key)
        if isinstance(principal, TenantPrincipal) and principal.tenant_name == name:
            return key, principal
        async with self.system.unit_of_work() as session:
            try:
                tenant = await self.administration.find_tenant(session, name)
            except TenantNotFound:
                tenant = await self.administration.create_tenant(session, name)
            await self.revoke(session, await self.administration.list_keys(session, tenant))
            _, key = await self.administration.create_key(session, tenant, KEY_NAME)
        principal = await self.whose(key)
        assert isinstance(principal, TenantPrincipal), "a tenant's new key is the tenant's"
        return key, principal

    async def revoke_tenant_keys(self, name: str) -> None:
        """Without the demo, its keys of an earlier start must not open anything."""
        async with self.system.unit_of_work() as session:
            try:
                tenant = await self.administration.find_tenant(session, name)
            except TenantNotFound:
                return
            await self.revoke(session, await self.administration.list_keys(session, tenant))

    async def revoke(self, session: AsyncSession, keys: Sequence[KeyView]) -> None:
        """End the keys that earlier starts made; those that people made stay."""
        for key in keys:
            if key.name == KEY_NAME and key.revoked_at is None:
                await self.administration.revoke_key(session, key.id)

    async def whose(self, key: str) -> Principal | None:
        if kind_of(key) is None:
            return None
        try:
            return await self.authenticator.authenticate(key, LOOPBACK)
        except (InvalidKey, TooManyFailures):
            return None

    async def push(self, principal: TenantPrincipal, name: str) -> None:
        """Upload a demo adapter, unless its version exists, and wait until it is ready.

        While uploads are off, the next start does it.
        """
        folder = adapters_dir() / name
        config = (folder / "adapter_config.json").read_bytes()
        weights = folder / "adapter_model.safetensors"
        try:
            version, _ = await self.uploads.submit(principal, name, config, weights)
        except UploadsOff:
            log.warning("demo_adapter_waits", adapter=name, why="uploads are switched off")
            return
        deadline = time.monotonic() + READY_SECONDS
        while version.status is not VersionStatus.READY:
            if version.status is VersionStatus.REJECTED:
                reasons = "; ".join(reason.message for reason in version.reasons)
                raise DemoAdapterRejected(version.model, reasons)
            if time.monotonic() > deadline:
                raise DemoAdapterUnfinished(version.model, READY_SECONDS)
            await asyncio.sleep(READY_PAUSE_SECONDS)
            async with self.app.unit_of_work(principal.tenant_id) as session:
                version = await Catalogue().get_version(session, principal, name, version.version)


def _url(url: SecretStr | None, name: str) -> str:
    if url is None:
        raise MissingSetting(name)
    return url.get_secret_value()


def _read(file: Path) -> dict[str, Any]:
    """The credentials of an earlier start; what cannot be read is made anew."""
    try:
        credentials: dict[str, Any] = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return credentials
