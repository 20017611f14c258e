import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from loraplex.api.documentation import READ_BY_ROUTES
from loraplex.api.examples import EXAMPLES
from loraplex.api.openapi import text
from loraplex.api.validation import validate

COMMITTED = Path(__file__).parents[2] / "web" / "openapi.json"
FILES = {"exportUsage", "exportSettledRequests", "downloadExport", "getMetrics"}
"""What answers with something else than JSON."""


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
            assert operation["summary"]
            if path.startswith(("/v1", "/api")):
                assert "default" in operation["responses"]
                assert "422" not in operation["responses"]


def test_every_body_has_an_example_of_each_model_that_it_may_be() -> None:
    shown: set[str] = set()
    for path, item in json.loads(text())["paths"].items():
        for operation in item.values():
            media = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if media is not None:
                choices = media["schema"].get("oneOf", [media["schema"]])
                models = {choice["$ref"].rpartition("/")[2] for choice in choices}
                assert set(media["examples"]) == models, path
                shown |= models
    assert shown == set(EXAMPLES)


@pytest.mark.parametrize("model", READ_BY_ROUTES, ids=lambda model: model.__name__)
def test_an_example_is_what_its_route_takes(model: type[BaseModel]) -> None:
    validate(model, EXAMPLES[model.__name__])


def test_every_answer_is_typed_but_files_and_metrics() -> None:
    untyped = {
        operation["operationId"]
        for item in json.loads(text())["paths"].values()
        for operation in item.values()
        for status, answer in operation["responses"].items()
        if status.startswith("2") and status != "204" and not is_typed(answer)
    }
    assert untyped <= FILES


def is_typed(answer: dict[str, Any]) -> bool:
    return bool(answer.get("content", {}).get("application/json", {}).get("schema"))
