"""`loraplex tenant limits` as operators type it."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from typer.testing import CliRunner, Result

from loraplex.platform.cli import app

pytestmark = pytest.mark.usefixtures("operators_environment")


def limits(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["tenant", "limits", *arguments])


def said(*arguments: str) -> str:
    result = limits(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def name() -> Iterator[str]:
    name = f"t-{uuid4().hex}"
    made = CliRunner().invoke(app, ["tenant", "create", name, "--max-open-uploads", "3"])
    assert made.exit_code == 0, made.output
    yield name


def shown(name: str) -> dict[tuple[str, str], list[str]]:
    """The cells after `Subject` and `Id` of the table, by subject and limit."""
    lines = [line.split() for line in said("show", name).splitlines()[1:]]
    return {(subject, limit): rest for subject, _, limit, *rest in lines}


def test_a_new_tenants_limits_are_told_with_their_use(name: str) -> None:
    table = shown(name)
    assert table["tenant", "max_open_uploads"] == ["3", "-"]
    assert table["tenant", "max_concurrent_requests"] == ["64", "0"]
    assert ("tenant", "tokens_per_minute") not in table


def test_some_are_set_and_the_others_stay(name: str) -> None:
    told = said("set", name, "requests_per_minute=600", "daily_budget_micros=5000000")
    assert told == "requests_per_minute=600\ndaily_budget_micros=5000000\n"
    said("set", name, "requests_per_minute=none", "soft_budget_percent=90", "max_adapters=7")
    table = shown(name)
    assert ("tenant", "requests_per_minute") not in table
    assert table["tenant", "daily_budget_micros"] == ["5000000", "0"]
    assert table["tenant", "soft_budget_percent"] == ["90", "-"]
    assert table["tenant", "max_adapters"] == ["7", "-"]
    assert table["tenant", "max_concurrent_requests"] == ["64", "0"]


def test_a_model_of_the_tenants_has_limits_of_its_own(name: str) -> None:
    said("set", name, "--model", "support", "tokens_per_minute=20000")
    assert shown(name)["model", "tokens_per_minute"] == ["20000", "0"]
    assert ("tenant", "tokens_per_minute") not in shown(name)
    quota = limits("set", name, "--model", "support", "max_adapters=1")
    assert (quota.exit_code, "'max_adapters' is none of" in quota.output) == (2, True)


@pytest.mark.parametrize(
    "wrong",
    [
        *("requests=5", "requests_per_minute", "requests_per_minute=", "requests_per_minute=-1"),
        *("tokens_per_minute=1.5", "tokens_per_minute=NaN", "tokens_per_minute=٣"),
        *("soft_budget_percent=0", "soft_budget_percent=101", "soft_budget_percent=none"),
        "max_storage_bytes=9007199254740992",
    ],
)
def test_what_is_no_limit_is_refused_and_nothing_is_set(name: str, wrong: str) -> None:
    before = said("show", name)
    assert limits("set", name, "requests_per_minute=5", wrong).exit_code == 2
    assert said("show", name) == before


def test_an_unknown_tenant_is_told(name: str) -> None:
    for arguments in (("show", f"{name}-not"), ("set", f"{name}-not", "requests_per_minute=1")):
        result = limits(*arguments)
        assert (result.exit_code, "There is no tenant" in result.output) == (1, True)
