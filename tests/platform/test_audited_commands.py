"""Every command that changes something leaves a line in the audit log, or says why it need not."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import typer.main
from msgspec import structs
from typer.testing import CliRunner

from loraplex.adapters_registry.versions.models import VersionStatus
from loraplex.adapters_registry.versions.service import register_base
from loraplex.platform.cli import app
from loraplex.platform.database.sessions import Database
from loraplex.platform.database.urls import libpq_url
from loraplex.platform.people.models import Membership, User
from loraplex.platform.pools.service import WorkerRegistry
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import TenantAdministration, owner_of
from tests.adapters_registry.samples import TINY
from tests.adapters_registry.versions.planned import PlannedAdapter, PlannedVersion, add_adapter
from tests.platform.pools.registrations import a_registration

LOOKING = {"list", "show", "check"}
"""The last word of commands that only read."""

ELSEWHERE = {
    "serve": "a process; what it makes on its first start it records as `setup`",
    "demo": "part of `serve`'s start, by the functions that record as `setup`",
    "controller": "a process",
    "jobs": "a process; its jobs record what they change",
    "gateway": "a process; its routes record what they change",
    "worker": "a process without a database",
    "migrate": "changes the schema, whose revision tells of it",
    "backup": "reads",
    "restore": "makes another installation, whose log comes with it",
    "model import": "files on this machine",
    "bench offline": "measures",
    "bench serve": "measures",
}


@dataclass
class Walker:
    """Types commands, and sees after each what has come into the log."""

    connection: psycopg.Connection[tuple[Any, ...]]
    walked: set[str] = field(default_factory=set)
    output: str = ""

    def __post_init__(self) -> None:
        self.seen = {row[0] for row in self.lines()}

    def lines(self) -> list[tuple[Any, ...]]:
        query = "SELECT id, action, actor_kind, actor_label FROM audit_events"
        return self.connection.execute(query).fetchall()

    def type(self, command: str, action: str, *arguments: str) -> None:
        done = CliRunner().invoke(app, [*command.split(), *arguments])
        assert done.exit_code == 0, (command, done.output)
        new = [line for line in self.lines() if line[0] not in self.seen]
        self.seen |= {line[0] for line in new}
        assert [line[1] for line in new] == [action], command
        assert all(line[2] == "operator" for line in new), command
        assert all(line[3].startswith("command line (") for line in new), command
        self.walked.add(command)
        self.output = done.output

    @property
    def made_id(self) -> str:
        return self.output.split("Key ")[1].partition(";")[0]


@pytest.fixture
def walker(services: Settings, operators_environment: None) -> Iterator[Walker]:
    assert services.database_system_url is not None
    url = services.database_system_url.get_secret_value()
    with psycopg.connect(libpq_url(url), autocommit=True) as connection:
        yield Walker(connection)


async def furnish(settings: Settings, tenant_name: str, email: str) -> None:
    """A tenant's adapter and member, and a pool of its name: no command makes those by itself."""
    assert settings.database_system_url is not None
    database = Database(settings.database_system_url.get_secret_value(), pool_size=1)
    administration = TenantAdministration(SecretKeys.from_settings(settings))
    base = structs.replace(TINY, base_name=f"tiny-{uuid4().hex}")
    try:
        async with database.unit_of_work() as session:
            await register_base(session, base)
            tenant = await administration.find_tenant(session, tenant_name)
            user = User(email=email, display_name="Bob")
            session.add(user)
            await session.flush()
            values = {"tenant_id": tenant.id, "user_id": user.id, "source": "operator"}
            session.add(Membership(role="viewer", **values))
            worker = a_registration()
            await WorkerRegistry(session).register(structs.replace(worker, pool=tenant_name))
        plan = PlannedAdapter("support", True, (PlannedVersion(VersionStatus.READY),))
        await add_adapter(database, owner_of(tenant), base, plan)
    finally:
        await database.dispose()


def walk(walker: Walker, settings: Settings) -> None:
    name, email = f"t-{uuid4().hex}", f"{uuid4().hex}@example.com"
    mine = ("--tenant", name)
    why = ("--reason", "a test")
    rates = ("--input", "4", "--output", "8")
    version = ("support", "1", *mine)
    walker.type("tenant create", "tenant.created", name)
    asyncio.run(furnish(settings, name, email))
    walker.type("tenant rename", "tenant.changed", name, "Tea & Co")
    walker.type("tenant limits set", "limits.changed", name, "tokens_per_minute=9")
    walker.type("tenant suspend", "tenant.suspended", name, *why)
    walker.type("tenant resume", "tenant.resumed", name)
    walker.type("member invite", "member.invited", *mine, f"ada-{email}")
    walker.type("member remove", "member.removed", *mine, email)
    walker.type("admin create", "operator.invited", f"eve-{email}")
    walker.type("admin reset-password", "password.reset", email)
    walker.type("admin disable", "person.changed", email)
    for whose, kind in ((mine, "api_key"), (("--operator",), "operator_key")):
        walker.type("key create", f"{kind}.created", *whose)
        walker.type("key rotate", f"{kind}.rotated", walker.made_id)
        made = walker.made_id
        walker.type("key disable", f"{kind}.disabled", made)
        walker.type("key enable", f"{kind}.enabled", made)
        walker.type("key revoke", f"{kind}.revoked", made)
    walker.type("slo choose", "slo_class.chosen", "interactive", *mine)
    walker.type("slo clear", "slo_class.chosen", *mine)
    walker.type("prefix declare", "public_prefix.declared", name, __file__)
    walker.type("prefix withdraw", "public_prefix.withdrawn", name)
    walker.type("switch on", "switch.turned_on", "no_uploads", *why)
    walker.type("switch off", "switch.turned_off", "no_uploads", *why)
    walker.type("pool drain", "switch.turned_on", name, *why)
    walker.type("pool undrain", "switch.turned_off", name, *why)
    walker.type("price create", "price.created", *rates, *mine)
    walker.type("usage rebuild", "usage.rebuilt", *mine)
    walker.type("adapter quarantine", "version.quarantined", *version, *why)
    walker.type("adapter release", "version.released", *version)
    walker.type("tenant export", "tenant.exported", name)
    walker.type("tenant delete", "tenant.deleted", name, "--confirm", name)


def commands(group: Any, *path: str) -> Iterator[tuple[str, set[str]]]:
    """Every command with the names of what it takes."""
    if not hasattr(group, "list_commands"):
        yield " ".join(path), {parameter.name for parameter in group.params}
        return
    context = group.make_context("loraplex", [], resilient_parsing=True)
    for name in group.list_commands(context):
        yield from commands(group.get_command(context, name), *path, name)


def test_every_command_that_changes_something_is_in_the_log(
    walker: Walker, services: Settings
) -> None:
    walk(walker, services)
    changing = {
        command
        for command, parameters in commands(typer.main.get_command(app))
        # Those that call the management API change nothing themselves: its routes do.
        if "api_url" not in parameters and command.split()[-1] not in LOOKING
    }
    assert changing == {*walker.walked, *ELSEWHERE}


def test_a_tenant_and_its_line_are_one_fact(walker: Walker) -> None:
    name = f"t-{uuid4().hex}"
    walker.type("tenant create", "tenant.created", name, "--max-open-uploads", "3")
    (row,) = walker.connection.execute(
        "SELECT a.after, a.target_name, a.xmin = t.xmin FROM audit_events a"
        " JOIN tenants t ON t.id = a.tenant_id WHERE t.name = %s",
        [name],
    ).fetchall()
    after, target_name, is_one_transaction = row
    assert (after["name"], after["max_open_uploads"]) == (name, 3)
    assert target_name == name
    assert is_one_transaction
