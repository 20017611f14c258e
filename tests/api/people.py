"""People for tests of the API: invited by operators' hands, signed in through the gateway."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import httpx
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.people.invitations import Invitations
from loraplex.platform.people.models import Membership, Source, User
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.principals import OperatorRole, Role
from tests.api.conftest import Tenant, in_system
from tests.api.running import RunningGateway

PASSWORD = "correct horse battery"
SESSION = "/api/v1/session"


def new_email() -> str:
    return f"{uuid4().hex}@example.com"


@contextmanager
def browser(gateway: RunningGateway) -> Iterator[httpx.Client]:
    """Keeps cookies, and says which page it is on; its failures count for no other test."""
    octets = uuid4().bytes
    address = f"127.{octets[0] or 1}.{octets[1]}.{octets[2] or 1}"
    with gateway.client(address=address) as client:
        client.headers.update({"Origin": gateway.url, "X-Loraplex-CSRF": "1"})
        yield client


def invitation(settings: Settings, tenant: str, email: str, role: Role) -> str:
    """The token of a link to a role in a tenant."""
    secrets = SecretKeys.from_settings(settings)

    async def make(session: AsyncSession) -> str:
        row = await TenantAdministration(secrets).find_tenant(session, tenant)
        _, token = await Invitations(secrets).to_tenant(
            session, TenantId(row.id), email, role, "test"
        )
        return token

    token: str = asyncio.run(in_system(settings, make))
    return token


def operators_invitation(settings: Settings, email: str, role: OperatorRole) -> str:
    """The token of a link to a place among the operators."""

    async def make(session: AsyncSession) -> str:
        invitations = Invitations(SecretKeys.from_settings(settings))
        _, token = await invitations.to_operators(session, email, role, "test")
        return token

    token: str = asyncio.run(in_system(settings, make))
    return token


def accept(client: httpx.Client, token: str) -> dict[str, Any]:
    """Follow a link as somebody new; who is signed in now."""
    body = {"token": token, "password": PASSWORD, "display_name": "Ada"}
    answer = client.post(f"{SESSION}/invitation", json=body)
    answer.raise_for_status()
    session: dict[str, Any] = answer.json()
    return session


def join(client: httpx.Client, settings: Settings, tenant: Tenant, role: Role) -> str:
    """Become a new member of a tenant in this browser; the member's e-mail address."""
    email = new_email()
    accept(client, invitation(settings, tenant.name, email, role))
    return email


def members_of(settings: Settings, tenant: Tenant, *roles: Role) -> list[str]:
    """New members, who have no password and never signed in; their memberships' ids."""

    async def make(session: AsyncSession) -> list[str]:
        row = await TenantAdministration(SecretKeys.from_settings(settings)).find_tenant(
            session, tenant.name
        )
        made = []
        for role in roles:
            user = User(email=new_email(), display_name="")
            session.add(user)
            await session.flush()
            made.append(
                Membership(
                    tenant_id=row.id, user_id=user.id, role=role.value, source=Source.OPERATOR.value
                )
            )
        session.add_all(made)
        await session.flush()
        return [str(one.id) for one in made]

    ids: list[str] = asyncio.run(in_system(settings, make))
    return ids
