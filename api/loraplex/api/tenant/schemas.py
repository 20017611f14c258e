"""The bodies of a tenant's management routes on the wire."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import StringConstraints

from loraplex.api.schemas import WireModel


class SignIn(WireModel):
    api_key: Annotated[str, StringConstraints(min_length=1, max_length=512)]


class Session(WireModel):
    """Who is signed in."""

    kind: Literal["tenant", "operator"]
    tenant: str | None
    base_model: str


class Reason(WireModel):
    """Why a version was rejected, in words a person can act on."""

    code: str
    message: str
    field: str | None


class Version(WireModel):
    """One upload. Its bytes never change; its status ends as ready or rejected."""

    adapter: str
    version: int
    status: Literal["uploaded", "validating", "ready", "rejected"]
    reasons: list[Reason]
    digest: str
    size_bytes: int
    max_rank: int | None
    model: str
    """What to call it by: `<tenant>/<adapter>:vN`."""
    created_at: datetime


class Adapter(WireModel):
    name: str
    base: str
    created_at: datetime
    latest_version: Version | None


class AdapterList(WireModel):
    data: list[Adapter]
    next_cursor: str | None


class VersionList(WireModel):
    data: list[Version]
    next_cursor: str | None
