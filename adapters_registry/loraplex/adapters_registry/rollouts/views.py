"""What others see of aliases and rollouts: plain values that outlive the session."""

from dataclasses import dataclass
from datetime import datetime
from typing import Self
from uuid import UUID

from loraplex.adapters_registry.rollouts.models import (
    Alias,
    AliasMove,
    MoveKind,
    Rollout,
    RolloutStatus,
)
from loraplex.adapters_registry.versions.models import AdapterVersion
from loraplex.adapters_registry.versions.names import LATEST, canonical_name


@dataclass(frozen=True, slots=True)
class AliasView:
    """An alias that is set. `latest` is computed: it has no generation and was never moved."""

    adapter: str
    alias: str
    version: int
    generation: int | None
    model: str
    moved_at: datetime | None

    @classmethod
    def of(cls, row: Alias, tenant_name: str, adapter_name: str) -> Self:
        assert row.version is not None, "an alias that is set points at a version"
        return cls(
            adapter=adapter_name,
            alias=row.name,
            version=row.version,
            generation=row.generation,
            model=canonical_name(tenant_name, adapter_name, alias=row.name),
            moved_at=row.moved_at,
        )

    @classmethod
    def latest(cls, version: AdapterVersion, tenant_name: str, adapter_name: str) -> Self:
        model = canonical_name(tenant_name, adapter_name, alias=LATEST)
        return cls(adapter_name, LATEST, version.number, None, model, None)


@dataclass(frozen=True, slots=True)
class MoveView:
    """One move of an alias: None stands for "not set"."""

    alias: str
    generation: int
    kind: MoveKind
    from_version: int | None
    to_version: int | None
    moved_at: datetime

    @classmethod
    def of(cls, row: AliasMove) -> Self:
        return cls(
            row.alias,
            row.generation,
            MoveKind(row.kind),
            row.from_version,
            row.to_version,
            row.created_at,
        )


@dataclass(frozen=True, slots=True)
class RolloutView:
    """A rollout and what was last seen of its candidate."""

    id: UUID
    adapter: str
    alias: str
    stable_version: int
    version: int
    weight: int
    status: RolloutStatus
    error_rate_limit: int
    window_seconds: int
    minimum_requests: int
    observed_requests: int
    observed_errors: int
    created_at: datetime
    ended_at: datetime | None
    end_reason: str | None

    @classmethod
    def of(cls, row: Rollout, adapter_name: str) -> Self:
        return cls(
            id=row.id,
            adapter=adapter_name,
            alias=row.alias,
            stable_version=row.stable_version,
            version=row.candidate_version,
            weight=row.weight,
            status=RolloutStatus(row.status),
            error_rate_limit=row.error_rate_limit,
            window_seconds=row.window_seconds,
            minimum_requests=row.minimum_requests,
            observed_requests=row.observed_requests,
            observed_errors=row.observed_errors,
            created_at=row.created_at,
            ended_at=row.ended_at,
            end_reason=row.end_reason,
        )
