"""The audit log's lines on the wire, and what they can be asked for by."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Depends, Query
from pydantic import AwareDatetime

from loraplex.api.schemas import WireModel
from loraplex.platform.audit.models import AuditEvent
from loraplex.platform.audit.reading import Wanted

TEXT = r"^[^\x00]*$"  # what a column of text can hold


class AuditActor(WireModel):
    kind: Literal["key", "person", "operator", "system"]
    id: str | None
    """The key's, the member's or the user's."""
    label: str


class AuditTarget(WireModel):
    kind: str
    id: str | None
    name: str | None


class AuditLine(WireModel):
    """One change: who made it, from where, to what, and how it was before and after."""

    id: str
    created_at: datetime
    action: str
    """`noun.verb`, as `api_key.created`."""
    actor: AuditActor
    address: str | None
    """The client's; null for commands and jobs."""
    request_id: str | None
    """The `x-request-id` of the answer."""
    target: AuditTarget
    before: dict[str, Any] | None
    """Null for what there was not before."""
    after: dict[str, Any] | None
    """Null for what there is no longer."""


class AuditList(WireModel):
    data: list[AuditLine]
    next_cursor: str | None


class PlatformAuditLine(AuditLine):
    tenant: str | None
    """Its name; null for what belongs to none, or to one that is gone."""
    tenant_id: str | None


class PlatformAuditList(WireModel):
    data: list[PlatformAuditLine]
    next_cursor: str | None


async def wanted_lines(
    action: Annotated[
        str | None, Query(max_length=100, pattern=TEXT, description="As `alias.moved`.")
    ] = None,
    actor: Annotated[UUID | None, Query(description="The id of who acted.")] = None,
    target_kind: Annotated[
        str | None, Query(max_length=100, pattern=TEXT, description="As `adapter`.")
    ] = None,
    target: Annotated[
        str | None, Query(max_length=200, pattern=TEXT, description="The target's id or name.")
    ] = None,
    since: Annotated[AwareDatetime | None, Query(description="Written then or later.")] = None,
    until: Annotated[AwareDatetime | None, Query(description="Written before then.")] = None,
) -> Wanted:
    return Wanted(action, actor, target_kind, target, since, until)


WantedDep = Annotated[Wanted, Depends(wanted_lines)]


def line(row: AuditEvent) -> AuditLine:
    return AuditLine.model_validate(fields_of(row))


def platform_line(row: AuditEvent, tenant: str | None) -> PlatformAuditLine:
    tenant_id = None if row.tenant_id is None else str(row.tenant_id)
    return PlatformAuditLine.model_validate(
        fields_of(row) | {"tenant": tenant, "tenant_id": tenant_id}
    )


def fields_of(row: AuditEvent) -> dict[str, Any]:
    actor_id = None if row.actor_id is None else str(row.actor_id)
    return {
        "id": str(row.id),
        "created_at": row.created_at,
        "action": row.action,
        "actor": {"kind": row.actor_kind, "id": actor_id, "label": row.actor_label},
        "address": row.address,
        "request_id": row.request_id,
        "target": {"kind": row.target_kind, "id": row.target_id, "name": row.target_name},
        "before": row.before,
        "after": row.after,
    }
