"""The code flow end to end, against a provider that runs in a thread of this process."""

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.engine.serving.server import WorkerServer
from loraplex.platform.people.models import User
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.principals import Role
from tests.api.conftest import Tenant, in_system, new_tenant
from tests.api.issuer import CLIENT_ID, CLIENT_SECRET, Issuer, running_issuer
from tests.api.people import PASSWORD, SESSION, browser, invitation, join
from tests.api.running import RunningGateway, running_gateway

CALLBACK = "/api/v1/session/oidc/callback"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer() as issuer:
        yield issuer


@pytest.fixture(scope="module")
def acme(gateway_settings: Settings) -> Tenant:
    return new_tenant(gateway_settings)


@pytest.fixture(scope="module")
def sso(
    issuer: Issuer,
    acme: Tenant,
    gateway_settings: Settings,
    worker: WorkerServer,
    registered_base: None,
) -> Iterator[RunningGateway]:
    """A gateway that knows the provider."""
    roles = f'{{"developers": "{acme.name}/developer", "staff": "admin_viewer"}}'
    settings = gateway_settings.model_copy(
        update={
            "oidc_issuer": issuer.url,
            "oidc_client_id": CLIENT_ID,
            "oidc_client_secret": SecretStr(CLIENT_SECRET),
            "oidc_name": "Example ID",
            "oidc_group_roles": roles,
        }
    )
    with running_gateway(settings) as gateway:
        yield gateway


@pytest.fixture
def page(sso: RunningGateway) -> Iterator[httpx.Client]:
    with browser(sso) as client:
        yield client


def person(**claims: Any) -> dict[str, Any]:
    """Somebody the provider knows."""
    subject = uuid4().hex
    known = {"sub": subject, "email": f"{subject}@example.com", "email_verified": True}
    return known | {"name": "Ada"} | claims


def begin(page: httpx.Client, **body: str) -> str:
    answer = page.post(f"{SESSION}/oidc", json=body).raise_for_status()
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    url: str = answer.json()["url"]
    return url


def come_back(page: httpx.Client, query: dict[str, str]) -> str:
    """Where the gateway sends the browser on to."""
    answer = page.get(CALLBACK, params=query)
    assert answer.status_code == 303
    location: str = answer.headers["location"]
    return location


def test_a_member_of_a_group_signs_in_and_is_what_the_group_says(
    page: httpx.Client, issuer: Issuer, acme: Tenant
) -> None:
    assert page.get(f"{SESSION}/methods").json() == {"identity_provider": "Example ID"}
    url = begin(page, next="/chat")
    asked = parse_qs(urlsplit(url).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert len(asked["code_challenge"][0]) == 43
    assert len(asked["state"][0]) >= 43
    assert len(asked["nonce"][0]) >= 43
    ada = person(groups=["developers", "others"])
    assert come_back(page, issuer.sign_in(url, ada)) == "/chat"
    session = page.get(SESSION).json()
    assert (session["tenant"], session["role"]) == (acme.name, "developer")
    assert (session["person"]["display_name"], session["person"]["has_password"]) == ("Ada", False)
    assert page.get("/api/v1/adapters").status_code == 200


def test_a_group_taken_away_takes_its_role(page: httpx.Client, issuer: Issuer) -> None:
    ada = person(groups=["developers", "staff"])
    assert come_back(page, issuer.sign_in(begin(page), ada)) == "/"
    assert page.get(SESSION).json()["kind"] == "operator"
    fewer = ada | {"groups": ["developers"]}
    assert come_back(page, issuer.sign_in(begin(page), fewer)) == "/"
    assert page.get(SESSION).json()["role"] == "developer"
    none = ada | {"groups": []}
    assert come_back(page, issuer.sign_in(begin(page), none)) == "/login?refused=no_membership"


def test_a_state_of_another_login_is_refused(
    page: httpx.Client, sso: RunningGateway, issuer: Issuer
) -> None:
    ada = person(groups=["developers"])
    with browser(sso) as other:  # a thief, who wants his login to end in this browser
        stolen = issuer.sign_in(begin(other), ada)
    assert come_back(page, stolen) == "/login?refused=oidc_state"
    begin(page)
    assert come_back(page, stolen) == "/login?refused=oidc_state"
    forged = issuer.sign_in(begin(page), ada) | {"state": "forged"}
    page.cookies.set("lpx_oidc", "forged", path=CALLBACK)
    assert come_back(page, forged) == "/login?refused=oidc_state"
    assert page.get(SESSION).status_code == 401


def test_a_wrong_nonce_is_refused(page: httpx.Client, issuer: Issuer) -> None:
    ada = person(groups=["developers"])
    query = issuer.sign_in(begin(page), ada, nonce="of-another-login")
    assert come_back(page, query) == "/login?refused=oidc_refused"
    assert page.get(SESSION).status_code == 401


@pytest.mark.parametrize("verified", [False, None, "yes"])
def test_an_unverified_email_is_nobodys(
    verified: object, page: httpx.Client, issuer: Issuer
) -> None:
    ada = person(groups=["developers"], email_verified=verified)
    query = issuer.sign_in(begin(page), ada)
    assert come_back(page, query) == "/login?refused=oidc_email_unverified"
    assert page.get(SESSION).status_code == 401


def test_what_came_back_once_does_not_come_back_again(
    page: httpx.Client, sso: RunningGateway, issuer: Issuer
) -> None:
    ada = person(groups=["developers"])
    query = issuer.sign_in(begin(page), ada)
    assert come_back(page, query) == "/"
    with browser(sso) as other:
        other.cookies.set("lpx_oidc", query["state"], path=CALLBACK)
        assert come_back(other, query) == "/login?refused=oidc_state"
        # The code alone, under a state of one's own, is the provider's to refuse.
        url = begin(other)
        own = parse_qs(urlsplit(url).query)["state"][0]
        replayed = {"code": query["code"], "state": own}
        assert come_back(other, replayed) == "/login?refused=oidc_refused"
        assert other.get(SESSION).status_code == 401


@pytest.mark.parametrize(
    "wrong",
    [
        {"iss": "https://elsewhere.example"},
        {"aud": "another-client"},
        {"exp": 1_000_000_000},
        {"aud": [CLIENT_ID, "another-client"]},
    ],
)
def test_a_token_for_or_of_somebody_else_is_refused(
    wrong: dict[str, object], page: httpx.Client, issuer: Issuer
) -> None:
    query = issuer.sign_in(begin(page), person(groups=["developers"], **wrong))
    assert come_back(page, query) == "/login?refused=oidc_refused"


def test_a_challenge_of_another_login_is_refused(page: httpx.Client, issuer: Issuer) -> None:
    ada = person(groups=["developers"])
    query = issuer.sign_in(begin(page), ada, code_challenge="A" * 43)
    assert come_back(page, query) == "/login?refused=oidc_refused"


def test_a_providers_new_key_is_found(page: httpx.Client, issuer: Issuer) -> None:
    ada = person(groups=["developers"])
    assert come_back(page, issuer.sign_in(begin(page), ada)) == "/"
    issuer.rotate()
    assert come_back(page, issuer.sign_in(begin(page), ada)) == "/"


def test_a_provider_that_says_no_is_told(page: httpx.Client) -> None:
    state = parse_qs(urlsplit(begin(page)).query)["state"][0]
    query = {"error": "access_denied", "state": state}
    assert come_back(page, query) == "/login?refused=oidc_refused"
    assert come_back(page, {}) == "/login?refused=oidc_state"


def test_an_invitation_is_followed_by_the_invited_alone(
    page: httpx.Client, sso: RunningGateway, issuer: Issuer, gateway_settings: Settings
) -> None:
    inviting = new_tenant(gateway_settings)
    ada, stranger = person(), person()
    token = invitation(gateway_settings, inviting.name, str(ada["email"]), Role.ADMIN)
    with browser(sso) as other:
        query = issuer.sign_in(begin(other, invitation=token), stranger)
        assert come_back(other, query) == "/login?refused=no_membership"
    assert come_back(page, issuer.sign_in(begin(page, invitation=token), ada)) == "/"
    assert page.get(SESSION).json()["tenant"] == inviting.name


def test_an_account_somebody_else_may_have_made_loses_its_password(
    page: httpx.Client,
    sso: RunningGateway,
    issuer: Issuer,
    acme: Tenant,
    gateway_settings: Settings,
) -> None:
    with browser(sso) as thief:
        email = join(thief, gateway_settings, acme, Role.VIEWER)
        ada = person(email=email)
        assert come_back(page, issuer.sign_in(begin(page), ada)) == "/"
        assert page.get(SESSION).json()["person"]["has_password"] is False
        assert thief.get(SESSION).status_code == 401
        again = thief.post(SESSION, json={"email": email, "password": PASSWORD})
        assert again.status_code == 401


def test_nobody_is_made_an_account_who_has_nowhere_to_be(
    page: httpx.Client, issuer: Issuer, gateway_settings: Settings
) -> None:
    ada = person()
    query = issuer.sign_in(begin(page), ada)
    assert come_back(page, query) == "/login?refused=no_membership"

    async def known(session: AsyncSession) -> object:
        return await session.scalar(select(User.id).where(User.email == str(ada["email"])))

    assert asyncio.run(in_system(gateway_settings, known)) is None


@pytest.mark.parametrize("next_path", ["//evil.example", "https://evil.example", "/\\evil", "x"])
def test_the_way_on_is_ours(next_path: str, page: httpx.Client) -> None:
    assert page.post(f"{SESSION}/oidc", json={"next": next_path}).status_code == 400


def test_without_a_provider_there_is_none(gateway: RunningGateway) -> None:
    with browser(gateway) as client:
        assert client.get(f"{SESSION}/methods").json() == {"identity_provider": None}
        off = client.post(f"{SESSION}/oidc", json={})
        assert (off.status_code, off.json()["code"]) == (404, "oidc_off")
        cross_site = client.post(f"{SESSION}/oidc", json={}, headers={"Origin": "https://a.b"})
        assert cross_site.status_code == 403
