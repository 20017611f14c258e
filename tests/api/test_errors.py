import importlib
import json
import pkgutil
from collections import Counter
from collections.abc import Iterator

import pytest
from starlette.responses import Response

import loraplex.adapters_registry
import loraplex.api
import loraplex.engine.protocol
import loraplex.platform
from loraplex.api.errors import OPENAI_TYPE, STATUS, openai_body, render
from loraplex.api.openai.answer_schemas import OpenAIError
from loraplex.api.refusals import InvalidValue, MissingKey
from loraplex.api.schemas import Problem
from loraplex.engine.protocol.errors import DomainError, FixedRefusal, Kind
from loraplex.platform.metrics import REFUSALS

PACKAGES = [
    loraplex.engine.protocol,
    loraplex.platform,
    loraplex.adapters_registry,
    loraplex.api,
]
PROCESSES = {"__main__", "validator", "cli", "openapi"}
"""Modules that run rather than define; none of them has an error of its own."""


def every_error() -> Iterator[type[DomainError]]:
    """Every DomainError a gateway could meet, from whatever module defines it."""
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.rsplit(".", 1)[-1] not in PROCESSES:
                importlib.import_module(module.name)
    waiting = [DomainError]
    while waiting:
        subclasses = waiting.pop().__subclasses__()
        waiting += subclasses
        yield from (one for one in subclasses if one.__module__.startswith("loraplex."))


def body_of(response: Response) -> dict[str, object]:
    value: dict[str, object] = json.loads(bytes(response.body))
    return value


def test_every_kind_has_a_status() -> None:
    assert set(STATUS) == set(Kind)


def test_every_error_has_a_kind_and_a_code_of_its_own() -> None:
    errors = [error for error in every_error() if "code" in vars(error)]
    codes = Counter(error.code for error in errors)
    assert [code for code, count in codes.items() if count > 1] == []
    assert all(isinstance(error.kind, Kind) for error in errors)
    assert len(errors) > 30


def test_every_fixed_refusal_has_its_sentence() -> None:
    fixed = [error for error in every_error() if issubclass(error, FixedRefusal)]
    unfit = [error for error in fixed if error is not FixedRefusal and not error().message]
    assert unfit == []
    assert len(fixed) > 20


@pytest.mark.parametrize("kind", Kind)
def test_under_v1_errors_have_openais_shape_and_elsewhere_they_are_problems(kind: Kind) -> None:
    error_class = type("Some", (InvalidValue,), {"kind": kind, "code": "some_code"})
    error = error_class("So it is.", field="f", rule="r", value=7)
    openai, problem = render("/v1/models", error), render("/api/v1/adapters", error)
    assert openai.status_code == problem.status_code == STATUS[kind]
    said = OpenAIError.model_validate(body_of(openai)).error
    assert (said.message, said.param, said.code) == ("So it is.", "f", "some_code")
    assert problem.media_type == "application/problem+json"
    told = Problem.model_validate(body_of(problem))
    assert (told.detail, told.field, told.rule, told.value) == ("So it is.", "f", "r", 7)
    assert told.status == STATUS[kind]


def test_only_limits_and_overload_say_when_to_come_back() -> None:
    for kind in Kind:
        error = type("Some", (InvalidValue,), {"kind": kind})("x", retry_after_seconds=3)
        is_worth_waiting = kind in (Kind.LIMITED, Kind.OVERLOADED, Kind.CONFLICT)
        assert render("/v1/x", error).headers.get("Retry-After") == (
            "3" if is_worth_waiting else None
        )


def test_every_refusal_is_counted_by_its_code() -> None:
    series = [REFUSALS.labels(api, "missing_api_key") for api in ("openai", "management")]
    before = [one._value.get() for one in series]
    render("/v1/models", MissingKey())
    render("/api/v1/adapters", MissingKey())
    render("/api/v1/adapters", MissingKey())
    assert [one._value.get() for one in series] == [before[0] + 1, before[1] + 2]


def test_a_missing_key_is_told_how_to_send_one() -> None:
    assert render("/v1/models", MissingKey()).headers["WWW-Authenticate"] == "Bearer"


def test_our_faults_are_server_errors_to_openais_client() -> None:
    assert OPENAI_TYPE[503] == OPENAI_TYPE[500] == "server_error"
    assert openai_body(MissingKey())["error"]["type"] == "authentication_error"  # type: ignore[index]
