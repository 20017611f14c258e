"""`loraplex tenant`, `member` and `admin` as operators type them."""

import asyncio
from uuid import uuid4

import pytest
from typer.testing import CliRunner, Result

from loraplex.platform.cli import app
from loraplex.platform.database.sessions import Database
from loraplex.platform.people.accepting import Accepting
from loraplex.platform.people.invitations import Invitations
from loraplex.platform.people.passwords import Passwords
from loraplex.platform.people.sessions import PeopleSessions
from loraplex.platform.people.signed_in import Client, SignedInPerson
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings

runner = CliRunner()


@pytest.fixture(autouse=True)
def _environment(operators_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LORAPLEX_PUBLIC_URL", "https://loraplex.example")


def loraplex(*arguments: str) -> Result:
    return runner.invoke(app, list(arguments))


def said(*arguments: str) -> str:
    result = loraplex(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def name() -> str:
    name = f"t-{uuid4().hex}"
    said("tenant", "create", name)
    return name


async def follow(services: Settings, link: str) -> SignedInPerson:
    assert services.database_url is not None
    database = Database(services.database_url.get_secret_value(), pool_size=1)
    secrets = SecretKeys.from_settings(services)
    passwords = Passwords(time_cost=1, memory_kibibytes=8)
    sessions = PeopleSessions(database, secrets, passwords)
    accepting = Accepting(database, Invitations(secrets), sessions, passwords)
    token = link.strip().partition("#")[2]
    try:
        _, person = await accepting.accept(
            token, Client("127.0.0.1", "test"), password="correct horse battery"
        )
    finally:
        await database.dispose()
    return person


def test_a_tenant_lives_by_the_command_line(name: str) -> None:
    said("tenant", "rename", name, "Tea & Co")
    assert "Tea & Co" in said("tenant", "show", name)
    said("tenant", "suspend", name, "--reason", "unpaid")
    shown = said("tenant", "show", name)
    assert "state\tsuspended" in shown
    assert "reason\tunpaid" in shown
    assert f"{name}\t" in said("tenant", "list")
    said("tenant", "resume", name)
    assert "state\tactive" in said("tenant", "show", name)
    assert len(said("tenant", "export", name).strip()) == 36
    twice = loraplex("tenant", "export", name)
    assert twice.exit_code == 1
    wrong = loraplex("tenant", "delete", name, "--confirm", "another")
    assert wrong.exit_code == 1
    assert "the tenant's name" in wrong.output
    said("tenant", "delete", name, "--confirm", name)
    assert "state\tdeleting" in said("tenant", "show", name)
    assert loraplex("tenant", "resume", name).exit_code == 1


def test_an_unknown_tenant_is_told(name: str) -> None:
    result = loraplex("tenant", "show", f"{name}-not")
    assert (result.exit_code, "There is no tenant" in result.output) == (1, True)


def test_members_come_and_go_by_the_command_line(name: str, services: Settings) -> None:
    email = f"{uuid4().hex}@example.com"
    link = said("member", "invite", "--tenant", name, email, "--role", "owner")
    assert link.startswith("https://loraplex.example/welcome#i.")
    person = asyncio.run(follow(services, link))
    assert person.place is not None
    assert person.place.tenant_name == name
    assert f"{email}\towner" in said("member", "list", "--tenant", name)
    last = loraplex("member", "remove", "--tenant", name, email)
    assert (last.exit_code, "last owner" in last.output) == (1, True)


def test_the_first_admin_gets_a_link_and_no_password(services: Settings) -> None:
    email = f"{uuid4().hex}@example.com"
    person = asyncio.run(follow(services, said("admin", "create", email)))
    assert person.operator_role == "admin"
    assert f"{email}\tadmin\tactive" in said("admin", "list")
    assert "#i." in said("admin", "reset-password", email)
    other = f"{uuid4().hex}@example.com"
    asyncio.run(follow(services, said("admin", "create", other, "--role", "admin_viewer")))
    said("admin", "disable", other)
    assert f"{other}\tadmin_viewer\tdisabled" in said("admin", "list")
    said("admin", "disable", other, "--undo")
    assert f"{other}\tadmin_viewer\tactive" in said("admin", "list")
