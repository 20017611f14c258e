import asyncio
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from typer.testing import CliRunner, Result

from loraplex.platform.database.sessions import Database
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.commands import key as key_commands
from loraplex.platform.tenancy.commands import tenant as tenant_commands
from loraplex.platform.tenancy.errors import InvalidKey
from loraplex.platform.tenancy.principals import OperatorPrincipal, OperatorRole, TenantPrincipal
from loraplex.platform.tenancy.scopes import Scope
from loraplex.platform.tenancy.service import Authenticator

pytestmark = pytest.mark.usefixtures("operators_environment")

runner = CliRunner()


def tenants(*arguments: str) -> Result:
    return runner.invoke(tenant_commands, arguments)


def keys(*arguments: str) -> Result:
    return runner.invoke(key_commands, arguments)


def made_key(*arguments: str) -> tuple[str, str]:
    """The id and the text of a new key."""
    result = keys("create", *arguments)
    assert result.exit_code == 0, result.output
    return result.stderr.split()[1].rstrip(";"), result.stdout.strip()


async def authenticate(services: Settings, key: str) -> TenantPrincipal | OperatorPrincipal:
    assert services.database_url is not None
    database = Database(services.database_url.get_secret_value())
    try:
        authenticator = Authenticator(database, SecretKeys.from_settings(services))
        return await authenticator.authenticate(key, "192.0.2.77")
    finally:
        await database.dispose()


def test_a_tenant_and_its_key_are_made_shown_and_revoked(services: Settings, name: str) -> None:
    created = tenants("create", name, "--max-concurrent-requests", "3")
    assert created.exit_code == 0, created.output
    assert created.stdout.startswith(f"{name}\t")
    assert f"{name}\t" in tenants("list").stdout

    key_id, text = made_key("--tenant", name, "--name", "ci")
    principal = asyncio.run(authenticate(services, text))
    assert isinstance(principal, TenantPrincipal)
    assert principal.tenant_name == name

    listed = keys("list", "--tenant", name).stdout
    assert listed.split("\t")[0] == key_id
    assert listed.endswith("ci\tlive\towner\tnever\n")
    assert text not in listed

    assert keys("revoke", key_id).exit_code == 0
    assert keys("list", "--tenant", name).stdout.endswith("ci\trevoked\towner\tnever\n")
    with pytest.raises(InvalidKey):
        asyncio.run(authenticate(services, text))


def test_an_operators_key_is_made(services: Settings) -> None:
    key_id, text = made_key("--operator", "--name", "oncall")
    principal = asyncio.run(authenticate(services, text))
    assert principal == OperatorPrincipal(UUID(key_id), None, "oncall", OperatorRole.ADMIN)
    assert key_id in keys("list", "--operator").stdout


def test_a_key_may_be_given_less_than_everything(services: Settings, name: str) -> None:
    tenants("create", name)
    _, caller = made_key("--tenant", name, "--role", "inference", "--model", "support")
    principal = asyncio.run(authenticate(services, caller))
    assert isinstance(principal, TenantPrincipal)
    assert principal.scopes == {Scope.MODELS_CALL}
    assert principal.models == frozenset({"support"})
    _, reader = made_key("--tenant", name, "--scope", "usage.read", "--scope", "audit.read")
    principal = asyncio.run(authenticate(services, reader))
    assert isinstance(principal, TenantPrincipal)
    assert principal.scopes == {Scope.USAGE_READ, Scope.AUDIT_READ}
    _, viewer = made_key("--operator", "--role", "admin_viewer")
    operator = asyncio.run(authenticate(services, viewer))
    assert isinstance(operator, OperatorPrincipal)
    assert operator.role is OperatorRole.ADMIN_VIEWER
    listed = keys("list", "--tenant", name).stdout
    assert "\tinference on support\t" in listed
    assert "\taudit.read,usage.read\t" in listed


@pytest.mark.parametrize(
    "wrong",
    [
        ["--tenant", "acme", "--role", "admin_viewer"],
        ["--operator", "--role", "owner"],
        ["--operator", "--scope", "usage.read"],
        ["--tenant", "acme", "--scope", "everything"],
    ],
)
def test_a_role_or_scope_that_there_is_not_is_refused(wrong: list[str]) -> None:
    assert keys("create", *wrong).exit_code == 2


@pytest.mark.parametrize("is_operators", [False, True])
def test_a_key_is_rotated_disabled_and_enabled_by_hand(
    is_operators: bool, services: Settings, name: str
) -> None:
    tenants("create", name)
    key_id, old = made_key(*(["--operator"] if is_operators else ["--tenant", name]))
    assert keys("disable", key_id).exit_code == 0
    with pytest.raises(InvalidKey, match="is disabled"):
        asyncio.run(authenticate(services, old))
    assert keys("enable", key_id).exit_code == 0
    rotated = keys("rotate", key_id, "--overlap-hours", "0")
    assert rotated.exit_code == 0, rotated.output
    asyncio.run(authenticate(services, rotated.stdout.strip()))
    with pytest.raises(InvalidKey, match="has expired"):
        asyncio.run(authenticate(services, old))
    again = keys("rotate", key_id)
    assert (again.exit_code, "is replaced" in again.stderr) == (1, True)
    assert keys("rotate", key_id, "--overlap-hours", "169").exit_code == 2


@pytest.mark.parametrize("bad", ["a/b", "a:b", "a@b", "Acme", "-a", "a-", "", "a" * 64, "ä", "a\n"])
def test_a_name_that_a_model_could_not_carry_is_refused(bad: str) -> None:
    result = tenants("create", "--", bad)
    assert result.exit_code == 1
    assert "is no tenant name" in result.stderr


def test_a_name_is_given_once(name: str) -> None:
    assert tenants("create", name).exit_code == 0
    again = tenants("create", name)
    assert (again.exit_code, again.stderr) == (1, f"A tenant named {name!r} already exists.\n")


def test_what_does_not_exist_is_named(name: str) -> None:
    assert keys("create", "--tenant", name).stderr == f"There is no tenant named {name!r}.\n"
    missing = str(uuid4())
    assert keys("revoke", missing).stderr == f"There is no key with id {missing}.\n"


@pytest.mark.parametrize("owner", [[], ["--operator", "--tenant", "acme"]])
def test_a_key_has_exactly_one_owner(owner: list[str]) -> None:
    assert keys("create", *owner).exit_code == 2


def test_a_missing_database_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LORAPLEX_DATABASE_SYSTEM_URL")
    monkeypatch.setenv("LORAPLEX_DATA_DIR", str(tmp_path))
    result = tenants("list")
    assert result.exit_code == 1
    assert "LORAPLEX_DATABASE_SYSTEM_URL is not set" in result.stderr
