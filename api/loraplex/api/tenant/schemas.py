"""The bodies of a tenant's management routes on the wire."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

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


class Alias(WireModel):
    """A name for one of an adapter's versions. `latest` is computed and has no generation."""

    adapter: str
    alias: str
    version: int
    generation: int | None
    """Grows with every move; the ETag, to be sent as If-Match by who moves the alias."""
    model: str
    """What to call it by: `<tenant>/<adapter>:<alias>`."""
    moved_at: datetime | None


class AliasTarget(WireModel):
    version: Annotated[int, Field(ge=1, le=2**31 - 1)]


class AliasMove(WireModel):
    """One move of an alias; a version of null means that it was not set."""

    alias: str
    generation: int
    kind: Literal["set", "removed", "rolled_back", "promoted"]
    from_version: int | None
    to_version: int | None
    moved_at: datetime


class AliasList(WireModel):
    data: list[Alias]
    next_cursor: str | None


class AliasMoveList(WireModel):
    data: list[AliasMove]
    next_cursor: str | None


class AdapterList(WireModel):
    data: list[Adapter]
    next_cursor: str | None


class VersionList(WireModel):
    data: list[Version]
    next_cursor: str | None
