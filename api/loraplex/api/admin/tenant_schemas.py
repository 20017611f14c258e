"""The bodies of operators' routes about tenants and people on the wire."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import StringConstraints

from loraplex.api.schemas import WireModel
from loraplex.api.tenant.people_schemas import Email, OperatorRoleName

DisplayName = Annotated[str, StringConstraints(max_length=128)]


class Deletion(WireModel):
    """How far a tenant's deletion is."""

    requested_by: str
    requested_at: datetime
    finished_at: datetime | None
    attempts: int
    last_error: str | None


class TenantDetails(WireModel):
    id: str
    name: str
    """Of a deleted tenant, a pseudonym."""
    display_name: str
    state: Literal["active", "suspended", "deleting", "deleted"]
    state_reason: str | None
    state_changed_at: datetime | None
    max_concurrent_requests: int
    created_at: datetime
    deletion: Deletion | None


class NewTenant(WireModel):
    name: Annotated[str, StringConstraints(min_length=1, max_length=63)]
    display_name: DisplayName = ""


class TenantChange(WireModel):
    display_name: DisplayName


class Suspension(WireModel):
    reason: Annotated[str, StringConstraints(min_length=1, max_length=500)]


class DeletionOrder(WireModel):
    confirm: Annotated[str, StringConstraints(min_length=1, max_length=63)]
    """The tenant's name once more: what is deleted does not come back."""


class Export(WireModel):
    """An archive of all that a tenant has."""

    id: str
    tenant: str
    status: Literal["queued", "running", "completed", "failed"]
    requested_by: str
    size_bytes: int | None
    last_error: str | None
    created_at: datetime
    completed_at: datetime | None
    expires_at: datetime


class ExportList(WireModel):
    data: list[Export]
    next_cursor: str | None


class PersonPlace(WireModel):
    tenant: str
    role: str


class PersonDetails(WireModel):
    """Somebody who may sign in."""

    id: str
    email: str
    display_name: str
    operator_role: OperatorRoleName | None
    is_disabled: bool
    has_password: bool
    tenants: list[PersonPlace]
    last_signed_in_at: datetime | None
    created_at: datetime


class PersonList(WireModel):
    data: list[PersonDetails]
    next_cursor: str | None


class NewOperator(WireModel):
    email: Email
    operator_role: OperatorRoleName


class PersonChange(WireModel):
    """What is absent stays as it is."""

    operator_role: Literal["admin", "admin_viewer", "none"] | None = None
    is_disabled: bool | None = None
