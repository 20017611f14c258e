"""Things that exist, for the paths of the API's description: each operation gets its own.

So an operation may rename, use up or delete what it finds, and no other sees it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import uuid4

from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.principals import OperatorRole, Role
from tests.api.conftest import Tenant, new_tenant
from tests.api.people import (
    accept,
    browser,
    invitation,
    members_of,
    new_email,
    operators_invitation,
)
from tests.api.running import RunningGateway
from tests.api.tenant.owners import Owner

ADMIN = "/api/v1/admin"
BASE = "smollm2-135m-instruct"
ADAPTER = "support"
FILES = ("adapter_config.json", "adapter_model.safetensors")
UPLOAD = {"adapter": ADAPTER, "files": [{"name": name, "size_bytes": 3} for name in FILES]}
IMPORT = {"adapter": ADAPTER, "source": {"kind": "hub", "repository": "acme/lora"}}
WEBHOOK = {"url": "https://hooks.example/x", "event_types": ["alias.moved"]}


USED_UP = (
    "/api/v1/adapters/{name}",
    "/api/v1/adapters/{name}/restore",
    "/api/v1/adapters/{name}/versions/{number}",
    "/api/v1/adapters/{name}/versions/{number}/restore",
    f"{ADMIN}/tenants/{{tenant}}/adapters/{{name}}/versions/{{number}}/quarantine",
    f"{ADMIN}/tenants/{{tenant}}/adapters/{{name}}/versions/{{number}}/release",
)
"""Paths whose operations take away what others ask for."""


def with_adapter(gateway: RunningGateway, settings: Settings, tenant: Tenant) -> Tenant:
    """The tenant, who has an adapter of two ready versions now."""
    with gateway.client(tenant.key) as client:
        Owner(tenant.name, client).upload(settings, ADAPTER, "pirate", "shout")
    return tenant


@dataclass
class OwnThings:
    """Of one operation; made when they are asked for."""

    gateway: RunningGateway
    settings: Settings
    operator_key: str
    owner: Tenant
    """Shared, for what leaves a tenant and its adapter as they are."""

    def __post_init__(self) -> None:
        self.tenant = self.owner
        self.alias = f"a-{uuid4().hex[:12]}"

    def of_path(self, template: str) -> dict[str, Any]:
        """A value for each parameter of the path, all of things that exist together."""
        values: dict[str, Any] = {}
        names = [part[1:-1] for part in template.split("/") if part.startswith("{")]
        # A tenant has few uploads open: making them is an operation that is tried too.
        if template in USED_UP or {"tenant", "upload_id"} & set(names):
            self.tenant = new_tenant(self.settings)
        if template in USED_UP:
            with_adapter(self.gateway, self.settings, self.tenant)
        if template.startswith(f"{ADMIN}/switches"):
            return {"name": "no_uploads"}
        for name in names:
            made = getattr(self, f"_{name}")
            values[name] = made(template) if name == "key" else made()
        return values

    def persons_headers(self) -> dict[str, str]:
        """Of the browser of somebody who is an owner of the tenant."""
        with browser(self.gateway) as client:
            accept(client, invitation(self.settings, self.tenant.name, new_email(), Role.OWNER))
            cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
            return {**client.headers, "Cookie": cookie}

    def _asked(self, method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        with self.gateway.client(key or self.tenant.key) as client:
            answer = client.request(method, path, json=body)
            assert answer.is_success, answer.text
            return answer.json()

    def _as_operator(self, method: str, path: str, body: Any = None) -> Any:
        return self._asked(method, path, body, self.operator_key)

    def _tenant(self) -> str:
        return self.tenant.name

    def _prefix(self) -> str:
        name = f"p-{uuid4().hex[:12]}"
        self._as_operator("PUT", f"{ADMIN}/public-prefixes/{name}", {"text": "Be brief."})
        return name

    def _pool(self) -> str:
        return "nobodys"

    def _model(self) -> str:
        return BASE

    def _key(self, template: str) -> str:
        if template.startswith(f"{ADMIN}/operator-keys"):
            return str(self._as_operator("POST", f"{ADMIN}/operator-keys", {"name": "x"})["id"])
        return self._key_id()

    def _key_id(self) -> str:
        body = {"name": "x", "scopes": ["models.call"]}
        return str(self._asked("POST", "/api/v1/keys", body)["id"])

    def _name(self) -> str:
        return ADAPTER

    def _number(self) -> int:
        return 1

    def _alias(self) -> str:
        with self.gateway.client(self.tenant.key) as client:
            for version, match in ((1, None), (2, '"1"')):
                answer = Owner(self.tenant.name, client).point(self.alias, version, match)
                answer.raise_for_status()
        return self.alias

    def _rollout_id(self) -> str:
        plan = {"alias": self._alias(), "version": 1, "weight": 10}
        return str(self._asked("POST", f"/api/v1/adapters/{ADAPTER}/rollouts", plan)["id"])

    def _upload_id(self) -> str:
        return str(self._asked("POST", "/api/v1/uploads", UPLOAD)["id"])

    def _file(self) -> str:
        return FILES[0]

    def _part(self) -> int:
        return 1

    def _import_id(self) -> str:
        return str(self._asked("POST", "/api/v1/imports", IMPORT)["id"])

    @cached_property
    def _one_webhook(self) -> str:
        return str(self._asked("POST", "/api/v1/webhooks", WEBHOOK)["id"])

    def _webhook(self) -> str:
        return self._one_webhook

    def _delivery(self) -> str:
        sent = self._asked("POST", f"/api/v1/webhooks/{self._one_webhook}/test")
        return str(sent["id"])

    def _member(self) -> str:
        return members_of(self.settings, self.tenant, Role.VIEWER)[0]

    def _invitation(self) -> str:
        body = {"email": new_email(), "role": "viewer"}
        return str(self._asked("POST", "/api/v1/members", body)["id"])

    def _session_id(self) -> str:
        return str(uuid4())

    def _person(self) -> str:
        with browser(self.gateway) as client:
            email = new_email()
            role = OperatorRole.ADMIN_VIEWER
            accept(client, operators_invitation(self.settings, email, role))
        people = self._as_operator("GET", f"{ADMIN}/people?limit=200")["data"]
        return str(next(one["id"] for one in people if one["email"] == email))

    def _export(self) -> str:
        return str(self._as_operator("POST", f"{ADMIN}/tenants/{self.tenant.name}/exports")["id"])
