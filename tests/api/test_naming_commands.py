"""`loraplex adapter alias|rollout|rm|restore` against a gateway, as a shell would call them."""

import json
from collections.abc import Callable, Iterator

import httpx
import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from loraplex.adapters_registry.commands import adapter
from loraplex.platform.settings import Settings
from tests.api.conftest import Tenant
from tests.api.running import RunningGateway
from tests.api.tenant.owners import Owner

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def _no_logs() -> Iterator[None]:
    """The gateway runs in this process; what it logs is not what a command prints."""
    with capture_logs():
        yield


@pytest.fixture
def mine(
    gateway: RunningGateway, gateway_settings: Settings, customer: Tenant
) -> Iterator[httpx.Client]:
    """A client of a tenant whose adapter `support` has two ready versions."""
    with gateway.client(customer.key) as client:
        Owner(customer.name, client).upload(gateway_settings, "support", "pirate", "shout")
        yield client


@pytest.fixture
def run(gateway: RunningGateway, customer: Tenant, mine: httpx.Client) -> Run:
    def call(*arguments: str) -> Result:
        environment = {"LORAPLEX_API_URL": gateway.url, "LORAPLEX_API_KEY": customer.key}
        return CliRunner().invoke(adapter, arguments, env=environment)

    return call


def succeed(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def test_an_alias_is_set_moved_rolled_back_and_removed(run: Run, customer: Tenant) -> None:
    made = succeed(run("alias", "set", "support", "prod", "1"))
    assert made == f"{customer.name}/support:prod is version 1 (generation 1).\n"
    moved = json.loads(succeed(run("alias", "set", "support", "prod", "2", "--json")))
    assert (moved["version"], moved["generation"]) == (2, 2)
    stale = run("alias", "set", "support", "prod", "1", "--generation", "1")
    assert (stale.exit_code, "HTTP 412" in stale.stderr) == (1, True)
    assert "is version 1 (generation 3)" in succeed(run("alias", "rollback", "support", "prod"))
    moves = json.loads(succeed(run("alias", "moves", "support", "prod", "--json")))
    assert [one["to_version"] for one in moves] == [1, 2, 1]
    assert "rolled_back" in succeed(run("alias", "moves", "support", "prod"))
    assert "prod" in succeed(run("alias", "list", "support"))
    assert "is removed" in succeed(run("alias", "rm", "support", "prod"))
    assert "prod" not in succeed(run("alias", "list", "support"))


def test_a_rollout_is_started_changed_paused_resumed_and_ended(run: Run) -> None:
    succeed(run("alias", "set", "support", "prod", "1"))
    start = ("rollout", "start", "support", "prod", "2", "10", "--error-rate-limit", "20", "--json")
    (started,) = json.loads(succeed(run(*start)))
    assert (started["weight"], started["error_rate_limit"]) == (10, 20)
    place = ("support", started["id"])
    assert "25 %" in succeed(run("rollout", "weight", *place, "25"))
    assert "paused" in succeed(run("rollout", "pause", *place))
    assert "running" in succeed(run("rollout", "resume", *place))
    assert "promoted" in succeed(run("rollout", "promote", *place))
    refused = run("rollout", "roll-back", *place)
    assert (refused.exit_code, "HTTP 4" in refused.stderr) == (1, True)
    assert started["id"] in succeed(run("rollout", "list", "support"))


def test_what_is_taken_away_can_be_brought_back(run: Run, mine: httpx.Client) -> None:
    assert "support:v1 is deleted" in succeed(run("rm", "support", "--version", "1"))
    assert "support:v1 is back" in succeed(run("restore", "support", "--version", "1"))
    succeed(run("rm", "support"))
    assert mine.get("/api/v1/adapters").json()["data"] == []
    succeed(run("restore", "support"))
    assert len(mine.get("/api/v1/adapters").json()["data"]) == 1


def test_what_is_not_there_is_a_sentence(run: Run) -> None:
    for command in (
        ("rm", "nothing"),
        ("alias", "list", "nothing"),
        ("rollout", "list", "nothing"),
    ):
        missing = run(*command)
        assert (missing.exit_code, "HTTP 404" in missing.stderr) == (1, True), missing.output
