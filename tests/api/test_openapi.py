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
    for item in description["paths"].values():
        for operation in item.values():
            assert operation["operationId"]
            assert operation.get("summary") or operation.get("description")
            assert operation["summary"]
            answers = operation["responses"]
            assert {"400", "500", "503"} <= set(answers)
            assert "default" not in answers, "what may come is told status by status"


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


def test_every_answer_names_its_request_and_every_refusal_tells_why() -> None:
    description = json.loads(text())
    for path, item in description["paths"].items():
        for operation in item.values():
            for status, answer in operation["responses"].items():
                if "$ref" in answer:
                    name = answer["$ref"].rpartition("/")[2]
                    answer = description["components"]["responses"][name]
                assert "x-request-id" in answer["headers"], (path, status)
                if status >= "400" and operation["operationId"] != "getReadiness":
                    [(kind, _)] = answer["content"].items()
                    is_openai = path.startswith("/v1")
                    assert kind == f"application/{'' if is_openai else 'problem+'}json"


def is_typed(answer: dict[str, Any]) -> bool:
    return bool(answer.get("content", {}).get("application/json", {}).get("schema"))
