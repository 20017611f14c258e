"""Members over HTTP: each role at each action, invitations, and the audit log of both."""

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.models import AuditEvent
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.principals import Role
from tests.api.conftest import Tenant, in_system, new_tenant
from tests.api.people import PASSWORD, SESSION, accept, browser, join, members_of, new_email
from tests.api.running import RunningGateway

MEMBERS, INVITATIONS = "/api/v1/members", "/api/v1/invitations"

READ, WRITE = {"owner", "admin", "developer", "viewer"}, {"owner", "admin"}
MATRIX = {
    "list": READ,
    "list invitations": READ,
    "invite viewer": WRITE,
    "invite owner": {"owner"},
    "withdraw": WRITE,
    "change developer": WRITE,
    "change owner": {"owner"},
    "make owner": {"owner"},
    "remove developer": WRITE,
    "remove owner": {"owner"},
}
"""Which roles may do what; everybody else is refused with 403 and nothing changes."""


@pytest.fixture
def page(gateway: RunningGateway) -> Iterator[httpx.Client]:
    with browser(gateway) as client:
        yield client


@pytest.fixture
def own_tenant(gateway_settings: Settings) -> Tenant:
    return new_tenant(gateway_settings)


def id_of(client: httpx.Client, email: str) -> str:
    members = client.get(MEMBERS).raise_for_status().json()["data"]
    return str(next(member["id"] for member in members if member["email"] == email))


def attempt(action: str, who: httpx.Client, owner: httpx.Client, targets: dict[str, str]) -> int:
    """Do `action` as `who`; the answer's status. What is left is put right by `owner`."""
    if action == "list":
        return who.get(MEMBERS).status_code
    if action == "list invitations":
        return who.get(INVITATIONS).status_code
    verb, role = action.split(" ") if " " in action else (action, "")
    if verb == "invite":
        return who.post(MEMBERS, json={"email": new_email(), "role": role}).status_code
    if verb == "withdraw":
        made = owner.post(MEMBERS, json={"email": new_email(), "role": "viewer"}).json()
        return who.delete(f"{INVITATIONS}/{made['id']}").status_code
    if verb == "make":
        return who.patch(f"{MEMBERS}/{targets['developer']}", json={"role": role}).status_code
    path = f"{MEMBERS}/{targets[role]}"
    return (
        who.patch(path, json={"role": role}) if verb == "change" else who.delete(path)
    ).status_code


@pytest.mark.parametrize("role", Role)
def test_each_role_may_do_what_the_matrix_says(
    role: Role, gateway: RunningGateway, gateway_settings: Settings, own_tenant: Tenant
) -> None:
    with gateway.client(own_tenant.key) as owner, browser(gateway) as who:
        join(who, gateway_settings, own_tenant, role)
        for action, allowed in MATRIX.items():
            ids = members_of(gateway_settings, own_tenant, Role.OWNER, Role.DEVELOPER)
            targets = dict(zip(("owner", "developer"), ids, strict=True))
            before = owner.get(MEMBERS).json()
            status = attempt(action, who, owner, targets)
            if role.value in allowed:
                assert status in (200, 201, 204), action
            else:
                assert status == 403, action
                assert owner.get(MEMBERS).json() == before, action


def test_an_invitation_is_told_once_and_followed(
    page: httpx.Client, gateway: RunningGateway, own_tenant: Tenant
) -> None:
    email = new_email()
    with gateway.client(own_tenant.key) as owner:
        made = owner.post(MEMBERS, json={"email": email.upper(), "role": "admin"})
        assert made.status_code == 201
        invitation = made.json()
        assert (invitation["email"], invitation["role"]) == (email, "admin")
        assert invitation["link"] == f"{gateway.url}/welcome#{invitation['token']}"
        (listed,) = owner.get(INVITATIONS).json()["data"]
        assert listed["id"] == invitation["id"]
        assert "token" not in listed
        accept(page, invitation["token"])
        assert owner.get(INVITATIONS).json()["data"] == []
        member = id_of(owner, email)
        assert owner.get(f"{MEMBERS}/{member}").json()["source"] == "invitation"
        again = owner.post(MEMBERS, json={"email": email, "role": "viewer"})
        assert (again.status_code, again.json()["code"]) == (409, "already_member")
        assert owner.delete(f"{MEMBERS}/{member}").status_code == 204
    assert page.get(SESSION).status_code == 401
    back = page.post(SESSION, json={"email": email, "password": PASSWORD})
    assert (back.status_code, back.json()["code"]) == (403, "no_membership")


def test_the_last_owner_stays(
    page: httpx.Client, gateway_settings: Settings, own_tenant: Tenant
) -> None:
    email = join(page, gateway_settings, own_tenant, Role.OWNER)
    path = f"{MEMBERS}/{id_of(page, email)}"
    for answer in (page.delete(path), page.patch(path, json={"role": "viewer"})):
        assert (answer.status_code, answer.json()["code"]) == (409, "last_owner")


def test_a_neighbours_members_and_invitations_are_404(
    page: httpx.Client,
    gateway: RunningGateway,
    gateway_settings: Settings,
    own_tenant: Tenant,
    neighbour: Tenant,
) -> None:
    member = id_of(page, join(page, gateway_settings, own_tenant, Role.OWNER))
    made = page.post(MEMBERS, json={"email": new_email(), "role": "viewer"}).json()
    with gateway.client(neighbour.key) as client:
        for answer in (
            client.get(f"{MEMBERS}/{member}"),
            client.patch(f"{MEMBERS}/{member}", json={"role": "viewer"}),
            client.delete(f"{MEMBERS}/{member}"),
            client.delete(f"{INVITATIONS}/{made['id']}"),
        ):
            assert answer.status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"email": "no address", "role": "viewer"}, "email"),
        ({"email": "a@example.com", "role": "boss"}, "role"),
        ({"email": "a@example.com"}, "role"),
        ({"email": "a@example.com", "role": "viewer", "tenant": "x"}, "tenant"),
    ],
)
def test_a_wrong_invitation_names_the_field(
    body: dict[str, str], field: str, gateway: RunningGateway, own_tenant: Tenant
) -> None:
    with gateway.client(own_tenant.key) as client:
        answer = client.post(MEMBERS, json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


def test_changes_of_members_are_audited(
    page: httpx.Client, gateway_settings: Settings, own_tenant: Tenant
) -> None:
    owner = join(page, gateway_settings, own_tenant, Role.OWNER)
    (member,) = members_of(gateway_settings, own_tenant, Role.VIEWER)
    invited = page.post(MEMBERS, json={"email": new_email(), "role": "viewer"}).json()
    page.patch(f"{MEMBERS}/{member}", json={"role": "developer"}).raise_for_status()
    page.delete(f"{MEMBERS}/{member}").raise_for_status()
    page.delete(f"{INVITATIONS}/{invited['id']}").raise_for_status()

    async def events(session: AsyncSession) -> list[tuple[str, str, object, object]]:
        targets = AuditEvent.target_id.in_([member, invited["id"]])
        found = await session.scalars(
            select(AuditEvent).where(targets).order_by(AuditEvent.created_at)
        )
        return [(one.action, one.actor_label, one.before, one.after) for one in found]

    assert asyncio.run(in_system(gateway_settings, events)) == [
        ("member.invited", owner, None, {"role": "viewer"}),
        ("member.changed", owner, {"role": "viewer"}, {"role": "developer"}),
        ("member.removed", owner, {"role": "developer"}, None),
        ("invitation.withdrawn", owner, {"role": "viewer"}, None),
    ]
