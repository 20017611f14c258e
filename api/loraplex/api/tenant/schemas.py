"""The bodies of a tenant's management routes on the wire."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from loraplex.api.schemas import WireModel


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
    deleted_at: datetime | None
    """Deleted, it cannot be called; it can be restored until it is purged."""
    quarantine_reason: str | None
    """Why the operator took it out of service, if so."""


class Adapter(WireModel):
    name: str
    base: str
    created_at: datetime
    deleted_at: datetime | None
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


Weight = Annotated[int, Field(ge=0, le=100)]


class RolloutPlan(WireModel):
    """A split of an alias between the version it points at and another."""

    alias: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    version: Annotated[int, Field(ge=1, le=2**31 - 1)]
    weight: Weight
    """How many of 100 conversations get the new version."""
    error_rate_limit: Annotated[int, Field(ge=0, le=100)] = 5
    """In percent: more errors of the new version roll it back. 100 never does."""
    window_seconds: Annotated[int, Field(ge=10, le=86_400)] = 300
    """Requests that ended so long ago are counted no more."""
    minimum_requests: Annotated[int, Field(ge=1, le=1_000_000)] = 20
    """Fewer requests say nothing about an error rate."""


class RolloutChange(WireModel):
    weight: Weight


class Rollout(WireModel):
    """`observed_…` is what the last look at the new version's requests saw."""

    id: str
    adapter: str
    alias: str
    stable_version: int
    version: int
    weight: int
    status: Literal["running", "paused", "promoted", "rolled_back"]
    error_rate_limit: int
    window_seconds: int
    minimum_requests: int
    observed_requests: int
    observed_errors: int
    created_at: datetime
    ended_at: datetime | None
    end_reason: str | None
    """`requested`, `error_rate` or `candidate_unusable`."""


class RolloutList(WireModel):
    data: list[Rollout]
    next_cursor: str | None


class AdapterList(WireModel):
    data: list[Adapter]
    next_cursor: str | None


class VersionList(WireModel):
    data: list[Version]
    next_cursor: str | None
