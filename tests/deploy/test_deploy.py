"""Rules and dashboards are PromQL, have runbooks, and are what they were generated from."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.promql import Wanted, wanted_by
from tests.deploy.queries import DASHBOARDS, DEPLOY, queries, recorded, rules

ROOT = DEPLOY.parent


def generator() -> Any:
    spec = importlib.util.spec_from_file_location("generate", DEPLOY / "grafana" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up.
    import sys

    sys.modules["generate"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("what", "query"), queries().items(), ids=queries())
def test_every_query_parses(what: str, query: str) -> None:
    assert wanted_by(query), f"{what} asks for no series"


def test_what_a_query_asks_for_is_found() -> None:
    query = 'sum by (a) (rate(x_total{b="1", c=~".*"}[5m])) / on (a) max by (a) (y > 0)'
    assert wanted_by(query) == [
        Wanted("x_total", (("b", "1"),), frozenset("abc")),
        Wanted("y", (), frozenset("a")),
    ]


def test_recorded_series_are_used() -> None:
    used = {wanted.name for query in queries().values() for wanted in wanted_by(query)}
    assert set(recorded()) <= used


def test_every_alert_has_a_severity_a_summary_and_a_runbook() -> None:
    runbook = (ROOT / "docs" / "monitoring.md").read_text()
    alerts = [rule for rule in rules() if "alert" in rule]
    for alert in alerts:
        assert alert["labels"]["severity"] in ("page", "ticket")
        assert alert["annotations"]["summary"]
        assert alert["annotations"]["runbook"] == f"docs/monitoring.md#{alert['alert'].lower()}"
        assert f"\n### {alert['alert']}\n" in runbook
    assert len({alert["alert"] for alert in alerts}) == len(alerts)
    assert runbook.count("\n### Loraplex") == len(alerts)


def test_dashboards_are_what_their_generator_writes() -> None:
    module = generator()
    written = {file.stem: file.read_text() for file in DASHBOARDS}
    assert written == {one.name: module.text_of(one) for one in module.DASHBOARDS}


@pytest.mark.parametrize("file", sorted(DEPLOY.rglob("*.yml")), ids=lambda file: file.name)
def test_yaml_can_be_read(file: Path) -> None:
    assert yaml.safe_load(file.read_text())
