"""`loraplex webhook` against a gateway, as a tenant's shell would call it."""

import json
from collections.abc import Callable, Iterator

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from loraplex.platform.embedded.ports import free_port
from loraplex.platform.webhooks.commands import webhook
from tests.api.conftest import Tenant
from tests.api.running import RunningGateway

URL = "https://hooks.example/x"
Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def _no_logs() -> Iterator[None]:
    """The gateway runs in this process; what it logs is not what a command prints."""
    with capture_logs():
        yield


@pytest.fixture
def run(gateway: RunningGateway, customer: Tenant) -> Run:
    def call(*arguments: str, url: str = gateway.url, key: str = customer.key) -> Result:
        environment = {"LORAPLEX_API_URL": url, "LORAPLEX_API_KEY": key}
        return CliRunner().invoke(webhook, arguments, env=environment)

    return call


def created(run: Run) -> str:
    made = run("create", URL, "--event", "alias.moved", "--json")
    assert made.exit_code == 0, made.output
    webhook_id: str = json.loads(made.stdout)["id"]
    return webhook_id


def test_the_secret_is_all_that_create_and_rotate_print(run: Run) -> None:
    first = run("create", URL)
    assert first.exit_code == 0
    assert first.stdout.startswith("whsec_")
    assert len(first.stdout.splitlines()) == 1
    webhook_id = first.stderr.split()[1].rstrip(";")
    second = run("rotate-secret", webhook_id, "--overlap-seconds", "60")
    assert second.stdout.startswith("whsec_")
    assert second.stdout != first.stdout


def test_a_list_is_a_table_or_json(run: Run) -> None:
    assert "No webhooks yet" in run("list").stdout
    webhook_id = created(run)
    head, line = run("list").stdout.splitlines()
    assert head.split() == ["webhook", "address", "events", "state"]
    assert line.split() == [webhook_id, URL, "alias.moved", "enabled"]
    (listed,) = json.loads(run("list", "--json").stdout)
    assert listed["id"] == webhook_id


def test_a_list_longer_than_a_page_is_whole(run: Run) -> None:
    made = {created(run) for _ in range(3)}
    assert {one["id"] for one in json.loads(run("list", "--json").stdout)} == made


def test_disable_enable_test_and_deliveries(run: Run) -> None:
    webhook_id = created(run)
    assert "disabled (tenant)" in run("disable", webhook_id).stdout
    refused = run("test", webhook_id)
    assert (refused.exit_code, "disabled" in refused.stderr) == (1, True)
    assert "is enabled" in run("enable", webhook_id).stdout
    sent = run("test", webhook_id)
    assert "webhook.test" in sent.stdout
    (delivery,) = json.loads(run("deliveries", webhook_id, "--json").stdout)
    assert delivery["id"] in run("deliveries", webhook_id).stdout
    under_way = run("retry", webhook_id, delivery["id"])
    assert (under_way.exit_code, "HTTP 409" in under_way.stderr) == (1, True)
    assert "alias.moved" in run("show", webhook_id).stdout
    assert "is deleted" in run("rm", webhook_id).stdout
    assert run("show", webhook_id).exit_code == 1


def test_what_went_wrong_is_a_sentence_and_a_code(run: Run) -> None:
    refused = run("create", "http://hooks.example")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "must begin with https://" in refused.stderr
    wrong_key = run("list", key="lpx_wrong")
    assert (wrong_key.exit_code, "HTTP 401" in wrong_key.stderr) == (1, True)
    away = run("list", url=f"http://127.0.0.1:{free_port()}")
    assert (away.exit_code, "cannot be reached" in away.stderr) == (3, True)
