"""No route shows, lists, changes or deletes what another tenant has: made from the routes' list.

A route with a thing's name or id in its path answers a stranger 404, in the words it would have for
a thing that does not exist; one without answers for the stranger's own things alone.
"""

import asyncio
import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from loraplex.platform.settings import Settings
from tests.api.belongings import ADAPTER, Belongings, make_belongings, rows_of
from tests.api.conftest import Tenant, in_system, new_tenant
from tests.api.running import RunningGateway
from tests.api.tenant.owners import Owner, files
from tests.api.test_access import CLASSES, TENANT

PARAMETER = re.compile(r"{(\w+)}")
ROUTES = sorted(place for place, kind in CLASSES.items() if kind == TENANT)
NAMING = [place for place in ROUTES if "{" in place[1]]
LISTING = [path for method, path in ROUTES if method == "GET" and "{" not in path]

BODIES: dict[str, Any] = {
    "PATCH /api/v1/keys/{key}": {"name": "stolen"},
    "POST /api/v1/keys/{key}/rotate": {"overlap_seconds": 0},
    "PATCH /api/v1/members/{member}": {"role": "viewer"},
    f"PUT {ADAPTER}/aliases/{{alias}}".replace("support", "{name}"): {"version": 1},
    "POST /api/v1/adapters/{name}/rollouts": {"alias": "prod", "version": 2, "weight": 50},
    "PATCH /api/v1/adapters/{name}/rollouts/{rollout_id}": {"weight": 50},
    "POST /api/v1/uploads/{upload_id}/part-urls": {"file": "adapter_config.json", "parts": [1]},
    "POST /api/v1/uploads/{upload_id}/complete": {},
    "POST /api/v1/uploads/{upload_id}/abort": {},
    "PATCH /api/v1/webhooks/{webhook}": {"description": "stolen"},
    "POST /api/v1/webhooks/{webhook}/rotate-secret": {"overlap_seconds": 0},
    "PUT /api/v1/keys/{key}/limits": {"requests_per_minute": 1},
    "PUT /api/v1/members/{member}/limits": {"requests_per_minute": 1},
}
"""A good body for each route that wants one: nothing else may be why a stranger is refused."""
MAKING = {("POST", "/api/v1/adapters/{name}/versions")}
"""Routes whose path names what they make: a stranger makes a thing of its own of that name."""


@pytest.fixture(scope="module")
def belongings(
    gateway: RunningGateway, gateway_settings: Settings, registered_base: None
) -> Iterator[Belongings]:
    tenant = new_tenant(gateway_settings)
    with gateway.client(tenant.key) as client:
        yield make_belongings(
            Owner(tenant.name, client),
            gateway_settings,
            lambda work: asyncio.run(in_system(gateway_settings, work)),
        )


@pytest.fixture(scope="module")
def stranger(gateway: RunningGateway, gateway_settings: Settings) -> Iterator[httpx.Client]:
    """Another tenant, with a key that may do everything."""
    with gateway.client(new_tenant(gateway_settings).key) as client:
        yield client


def path_of(template: str, belongings: Belongings) -> str:
    return template.format_map(belongings.ids)


def rows(settings: Settings, belongings: Belongings) -> dict[str, str]:
    found: dict[str, str] = asyncio.run(
        in_system(settings, lambda session: rows_of(session, belongings.owner.name))
    )
    return found


def send(client: httpx.Client, method: str, template: str, path: str) -> httpx.Response:
    if method == "PUT" and template.endswith("/parts/{part}"):
        return client.put(path, content=b"{}")
    return client.request(method, path, json=BODIES.get(f"{method} {template}"))


def test_the_owner_has_one_of_each(belongings: Belongings) -> None:
    unknown = {name for _, path in NAMING for name in PARAMETER.findall(path)} - set(belongings.ids)
    assert not unknown, "a route names a thing that this matrix does not make"
    for method, template in NAMING:
        if method == "GET":
            answer = belongings.owner.client.get(path_of(template, belongings))
            assert answer.is_success, f"{template}: {answer.text}"


@pytest.mark.parametrize(("method", "template"), [r for r in NAMING if r not in MAKING])
def test_a_strangers_thing_is_404_and_stays_as_it_was(
    method: str,
    template: str,
    belongings: Belongings,
    stranger: httpx.Client,
    gateway_settings: Settings,
) -> None:
    before = rows(gateway_settings, belongings)
    answer = send(stranger, method, template, path_of(template, belongings))
    assert answer.status_code == 404, answer.text
    assert rows(gateway_settings, belongings) == before
    for secret in belongings.secrets - {belongings.ids["model"]}:
        if secret not in str(answer.request.url):
            assert secret not in answer.text


@pytest.mark.parametrize(("method", "template"), [r for r in NAMING if r not in MAKING])
def test_a_strangers_thing_is_refused_as_one_that_does_not_exist(
    method: str, template: str, belongings: Belongings, stranger: httpx.Client
) -> None:
    """The same words but for the name itself, so that nobody learns what another has."""
    missing = {name: str(uuid4()) for name in belongings.ids}
    missing |= {name: belongings.ids[name] for name in ("number", "part", "file", "alias")}
    theirs = send(stranger, method, template, path_of(template, belongings))
    nobodys = send(stranger, method, template, template.format_map(missing))
    assert nobodys.status_code == theirs.status_code == 404
    assert generic(nobodys, missing) == generic(theirs, belongings.ids)


def generic(answer: httpx.Response, names: dict[str, str]) -> object:
    """The refusal, with names left out."""
    text = answer.text
    for name in sorted(names.values(), key=len, reverse=True):
        if len(name) > 2:
            text = text.replace(name, "…")
    return re.sub(r'"(request_id|instance)":"[^"]*"', "", text)


@pytest.mark.parametrize("path", LISTING)
def test_a_stranger_lists_its_own_things_alone(
    path: str, belongings: Belongings, stranger: httpx.Client
) -> None:
    answer = stranger.get(path)
    assert answer.status_code == 200, answer.text
    for secret in belongings.secrets:
        assert secret not in answer.text


def test_a_version_uploaded_under_a_neighbours_name_is_ones_own(
    belongings: Belongings, gateway: RunningGateway, gateway_settings: Settings, customer: Tenant
) -> None:
    before = rows(gateway_settings, belongings)
    with gateway.client(customer.key) as client:
        made = client.post(f"{ADAPTER}/versions", files=files("pirate"))
        assert made.status_code == 202, made.text
        assert made.json()["version"] == 1
    assert rows(gateway_settings, belongings) == before


@pytest.mark.parametrize("route", ["/v1/completions", "/v1/chat/completions"])
def test_a_neighbours_adapter_cannot_be_called(
    route: str, belongings: Belongings, stranger: httpx.Client
) -> None:
    asked = (
        {"prompt": "hi"}
        if route == "/v1/completions"
        else {"messages": [{"role": "user", "content": "hi"}]}
    )
    for model in ("support", belongings.ids["model"], f"{belongings.ids['model']}:prod"):
        answer = stranger.post(route, json={"model": model, "max_tokens": 1, **asked})
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "model_not_found"
