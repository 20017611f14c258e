"""The API's description, held to what the gateway answers to good, bad and odd requests.

Every operation is asked, with things of its own. What would change more than that is bent by rule:

- A price is its own tenant's, in the currency of the other tests' prices.
- A switch that was turned is turned off again, a pool is one that has no workers.
- Calls answer at most eight tokens, and are of a model that is there.
"""

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode
from zlib import crc32

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from requests.adapters import HTTPAdapter
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from loraplex.api.gateway import create_app
from loraplex.platform.settings import Settings
from tests.api.conftest import Tenant, new_tenant
from tests.api.described import check_answer
from tests.api.odd import one_odd_value
from tests.api.own_things import ADAPTER, ADMIN, BASE, OwnThings, with_adapter
from tests.api.running import RunningGateway
from tests.api.test_access import CLASSES, EITHER, OPERATOR, PERSON, TENANT
from tests.soak import examples

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]
CALLS = ("POST /v1/chat/completions", "POST /v1/completions")
ADDRESS = "127.0.5.4"
TIMEOUT_SECONDS = 30
QUERY_CHARACTERS = 60_000
"""The HTTP server reads little more of a request's head, and refuses longer ones on its own."""
FRAMING = {"connection", "content-length", "expect", "host", "te", "transfer-encoding", "upgrade"}
"""Headers that say how a message is sent; the HTTP server refuses nonsense in them on its own."""

SCHEMA = schemathesis.openapi.from_dict(create_app(Settings()).openapi())
OPERATIONS = {
    found.ok().label: found.ok() for found in SCHEMA.get_all_operations() if isinstance(found, Ok)
}


class FromAddress(HTTPAdapter):
    """Comes from an address of its own, so that its failures count for no other test."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, source_address=(ADDRESS, 0), **kwargs)


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", FromAddress())
        yield session


@pytest.fixture(scope="module")
def owner(gateway: RunningGateway, gateway_settings: Settings) -> Tenant:
    """Has an adapter of two ready versions."""
    return with_adapter(gateway, gateway_settings, new_tenant(gateway_settings))


@pytest.fixture
def own(
    gateway: RunningGateway, gateway_settings: Settings, operator_key: str, owner: Tenant
) -> OwnThings:
    return OwnThings(gateway, gateway_settings, operator_key, owner)


@pytest.fixture
def switches_off(gateway: RunningGateway, operator_key: str) -> Iterator[Callable[[], None]]:
    """Turns every switch off; at the end too."""

    def turn_off() -> None:
        with gateway.client(operator_key) as client:
            for switch in client.get(f"{ADMIN}/switches").raise_for_status().json()["data"]:
                if switch["is_on"]:
                    body = {"is_on": False, "reason": "a test"}
                    path = f"{ADMIN}/switches/{switch['name']}"
                    client.put(path, json=body).raise_for_status()

    yield turn_off
    turn_off()


def credentials(own: OwnThings, kind: str) -> dict[str, str]:
    """Headers of somebody who may ask the operation."""
    if kind in (TENANT, OPERATOR):
        key = own.tenant.key if kind == TENANT else own.operator_key
        return {"Authorization": f"Bearer {key}"}
    if kind in (PERSON, EITHER):
        return own.persons_headers()
    return {}


def is_good(case: Case[Any], part: ParameterLocation) -> bool:
    """Whether that part of the request is as described."""
    made = case.meta.components.get(part) if case.meta else None
    return made is None or made.mode.is_positive


def bend(case: Case[Any], path_values: Mapping[str, Any], own: OwnThings) -> None:
    """Ask about things that exist, and change nobody else's."""
    for name in FRAMING.intersection(map(str.lower, case.headers)):
        del case.headers[name]
    if is_good(case, ParameterLocation.PATH):
        case.path_parameters.update(path_values)
    if not isinstance(case.body, dict):
        return
    case.body = dict(case.body)  # it may be an example of the description's
    if case.operation.label == f"POST {ADMIN}/prices":
        case.body |= {"tenant": own.tenant.name, "currency": "USD"}
    if is_good(case, ParameterLocation.BODY):
        known: dict[str, Any] = {
            "model": BASE,
            "base_model": BASE,
            "adapter": ADAPTER,
            "alias": own.alias,
            "version": 2,
            "tenant": own.tenant.name,
            "confirm": own.tenant.name,
        }
        case.body |= {name: known[name] for name in known if name in case.body}
        if case.operation.label in CALLS:
            case.body.pop("max_completion_tokens", None)
            case.body["max_tokens"] = 8


@pytest.mark.parametrize("label", OPERATIONS)
def test_it_is_as_described(
    label: str,
    own: OwnThings,
    session: requests.Session,
    request: pytest.FixtureRequest,
) -> None:
    operation = OPERATIONS[label]
    method, path = label.split(" ")
    path_values = own.of_path(path)
    headers = credentials(own, CLASSES[method, path])
    turns_switches = path.startswith((f"{ADMIN}/switches", f"{ADMIN}/pools"))
    restore = request.getfixturevalue("switches_off") if turns_switches else None

    def ask(case: Case[Any], headers: Mapping[str, str], *, may_miss: bool = False) -> None:
        """`may_miss`: what stands in the path may make it another one, without such a method."""
        if len(urlencode(case.query, doseq=True)) > QUERY_CHARACTERS:
            return
        answer = case.call(
            own.gateway.url, session, dict(headers), allow_redirects=False, timeout=TIMEOUT_SECONDS
        )
        if may_miss and answer.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            return
        case.validate_response(answer, CHECKS)
        check_answer(method, str(answer.request.url), answer.status_code, answer.headers)
        if restore is not None:
            restore()

    good_ones = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    bad_ones = (
        operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
        if takes_anything(operation)
        else good_ones
    )

    @tried(label, 2, 100)
    @given(good_ones, bad_ones, st.data())
    def run(good: Case[Any], bad: Case[Any], data: st.DataObject) -> None:
        for case in (good, bad):
            bend(case, path_values, own)
        ask(good, {})
        ask(good, headers)
        ask(bad, headers, may_miss=True)
        odd_headers = data.draw(one_odd_value(good))
        ask(good, {**headers, **odd_headers}, may_miss=True)

    run()


def takes_anything(operation: Any) -> bool:
    """Whether a request for it can be other than described."""
    return any((operation.path_parameters, operation.query, operation.body, operation.headers))


def tried(label: str, few: int, many: int) -> Callable[[Any], Any]:
    """So many examples, always the same ones, and other ones for each operation."""
    chosen = settings(
        max_examples=examples(few, many),
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    return lambda test: seed(crc32(label.encode()))(chosen(test))
