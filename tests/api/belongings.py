"""Everything that a tenant can have, made over HTTP, and what its rows say afterwards."""

import hashlib
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
from sqlalchemy import text

from loraplex.platform.settings import Settings
from tests.api.tenant.owners import Owner

ADAPTER = "/api/v1/adapters/support"
WEBHOOK = {"url": "https://hooks.example.com/loraplex", "event_types": ["alias.moved"]}
SOURCE = {"kind": "https", "url": "https://files.example.com/adapter.zip"}

MEMBER = """
WITH person AS (
    INSERT INTO users (id, email, display_name) VALUES (gen_random_uuid(), :email, 'Ada')
    RETURNING id
)
INSERT INTO memberships (id, tenant_id, user_id, role, source)
SELECT gen_random_uuid(), t.id, person.id, 'developer', 'operator'
FROM person, tenants t WHERE t.name = :tenant RETURNING id
"""
TENANT_TABLES = """
SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attname = 'tenant_id'
ORDER BY c.relname
"""


@dataclass(frozen=True)
class Belongings:
    """A tenant, and the parameters that routes name its things by."""

    owner: Owner
    ids: dict[str, str]

    @property
    def secrets(self) -> set[str]:
        """What nobody else may ever read: names that are its own, and random ids."""
        own = {"upload_id", "import_id", "rollout_id", "webhook", "delivery", "key", "member"}
        return {self.owner.name, *(self.ids[name] for name in own), self.ids["invitation"]}


def one_of(answer: httpx.Response) -> dict[str, Any]:
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found


def make_belongings(owner: Owner, settings: Settings, in_system: Any) -> Belongings:
    """One of each for a tenant that has nothing yet."""
    client = owner.client
    owner.upload(settings, "support", "pirate", "shout")
    owner.point("prod", 1).raise_for_status()
    plan = {"alias": "prod", "version": 2, "weight": 10}
    rollout = one_of(client.post(f"{ADAPTER}/rollouts", json=plan))
    client.put(f"{ADAPTER}/pin").raise_for_status()
    files = [
        {"name": "adapter_config.json", "size_bytes": 600},
        {"name": "adapter_model.safetensors", "size_bytes": 5000},
    ]
    upload = one_of(client.post("/api/v1/uploads", json={"adapter": "parrot", "files": files}))
    fetched = one_of(client.post("/api/v1/imports", json={"adapter": "parrot", "source": SOURCE}))
    webhook = one_of(client.post("/api/v1/webhooks", json=WEBHOOK))
    delivery = one_of(client.post(f"/api/v1/webhooks/{webhook['id']}/test"))
    key = one_of(client.post("/api/v1/keys", json={"name": "ci", "scopes": ["models.call"]}))
    invited = {"email": f"{uuid4().hex}@example.com", "role": "viewer"}
    invitation = one_of(client.post("/api/v1/members", json=invited))

    async def add_member(session: Any) -> str:
        values = {"email": f"{uuid4().hex}@example.com", "tenant": owner.name}
        return str(await session.scalar(text(MEMBER), values))

    ids = {
        "name": "support",
        "number": "1",
        "alias": "prod",
        "file": "adapter_config.json",
        "part": "1",
        "rollout_id": rollout["id"],
        "upload_id": upload["id"],
        "import_id": fetched["id"],
        "webhook": webhook["id"],
        "delivery": delivery["id"],
        "key": key["id"],
        "member": in_system(add_member),
        "invitation": invitation["id"],
        "model": f"{owner.name}/support",
    }
    return Belongings(owner, ids)


async def rows_of(session: Any, tenant_name: str) -> dict[str, str]:
    """A digest of a tenant's rows in each table that has any of tenants'."""
    tables = (await session.scalars(text(TENANT_TABLES))).all()
    found = {}
    for table in tables:
        rows = await session.scalars(
            text(
                f"SELECT (to_jsonb(r) - 'last_used_at')::text FROM {table} r"
                " JOIN tenants t ON t.id = r.tenant_id WHERE t.name = :name ORDER BY 1"
            ),
            {"name": tenant_name},
        )
        found[table] = hashlib.sha256("\n".join(rows).encode()).hexdigest()
    return found
