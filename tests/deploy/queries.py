"""Every query of deploy/: rules, alerts, and the dashboards' panels and variables."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
VARIABLE = re.compile(r"label_values\((?P<series>\S+), (?P<label>\w+)\)")


def rules() -> list[dict[str, Any]]:
    """Recording rules and alerts."""
    return [
        rule
        for name in ("recording.yml", "alerts.yml")
        for group in yaml.safe_load((DEPLOY / "prometheus" / name).read_text())["groups"]
        for rule in group["rules"]
    ]


def recorded() -> dict[str, str]:
    """The query behind each recorded series."""
    return {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}


def queries() -> dict[str, str]:
    """By what each is for."""
    found = {rule.get("alert") or rule["record"]: rule["expr"] for rule in rules()}
    for file in DASHBOARDS:
        dashboard = json.loads(file.read_text())
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                found[f"{file.stem}: {panel['title']} {target['refId']}"] = target["expr"]
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                asked = VARIABLE.fullmatch(variable["query"])
                assert asked is not None, variable["query"]
                query = f"count by ({asked['label']}) ({asked['series']})"
                found[f"{file.stem}: ${variable['name']}"] = query
    return found
