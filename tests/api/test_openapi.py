import json
from pathlib import Path
from typing import Any

from loraplex.api.openapi import text

COMMITTED = Path(__file__).parents[2] / "web" / "openapi.json"


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_the_committed_description_is_current() -> None:
    """Else: `.venv/bin/python -m loraplex.api.openapi > web/openapi.json`."""
    assert COMMITTED.read_text("utf-8") == text()


def test_the_description_is_whole() -> None:
    description = json.loads(text())
    for reference in references(description):
        kind, name = reference.removeprefix("#/components/").split("/")
        assert name in description["components"][kind]
    for path, item in description["paths"].items():
        for operation in item.values():
            assert operation["operationId"]
            assert operation.get("summary") or operation.get("description")
            if path.startswith(("/v1", "/api")):
                assert "default" in operation["responses"]
                assert "422" not in operation["responses"]
