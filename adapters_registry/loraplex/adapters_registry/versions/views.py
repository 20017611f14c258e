"""What others see of adapters and versions: plain values that outlive the session."""

from dataclasses import dataclass
from datetime import datetime
from typing import Self
from uuid import UUID

import msgspec

from loraplex.adapters_registry.rejection import RejectionReason
from loraplex.adapters_registry.versions.models import (
    Adapter,
    AdapterVersion,
    VersionStatus,
)
from loraplex.adapters_registry.versions.names import canonical_name
from loraplex.engine.protocol.adapter import AdapterSpec
from loraplex.engine.protocol.identity import Digest


@dataclass(frozen=True, slots=True)
class VersionView:
    """One upload and how its validation went. `model` is what to call it by."""

    adapter: str
    version: int
    status: VersionStatus
    reasons: tuple[RejectionReason, ...]
    digest: Digest
    size_bytes: int
    max_rank: int | None
    model: str
    created_at: datetime
    deleted_at: datetime | None
    quarantine_reason: str | None

    @classmethod
    def of(cls, row: AdapterVersion, tenant_name: str, adapter_name: str) -> Self:
        return cls(
            adapter=adapter_name,
            version=row.number,
            status=VersionStatus(row.status),
            reasons=tuple(msgspec.convert(row.reasons, list[RejectionReason])),
            digest=Digest(row.digest),
            size_bytes=row.size_bytes,
            max_rank=row.max_rank,
            model=canonical_name(tenant_name, adapter_name, row.number),
            created_at=row.created_at,
            deleted_at=row.deleted_at,
            quarantine_reason=row.quarantine_reason,
        )


@dataclass(frozen=True, slots=True)
class AdapterView:
    """An adapter, its base's name and its newest version of whatever status."""

    name: str
    base: str
    created_at: datetime
    deleted_at: datetime | None
    latest_version: VersionView | None

    @classmethod
    def of(
        cls, adapter: Adapter, base_name: str, latest: AdapterVersion | None, tenant_name: str
    ) -> Self:
        return cls(
            name=adapter.name,
            base=base_name,
            created_at=adapter.created_at,
            deleted_at=adapter.deleted_at,
            latest_version=VersionView.of(latest, tenant_name, adapter.name) if latest else None,
        )


@dataclass(frozen=True, slots=True)
class CallableModel:
    """A line of /v1/models. `parent` is the base of an adapter, None for a base itself."""

    id: str
    created: int
    """Seconds since 1970."""
    owned_by: str
    parent: str | None


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """What a model name means for one request, pinned for all of it. A base has no adapter."""

    base_name: str
    base_digest: Digest
    id: str
    """The canonical name as /v1/models lists it: of an alias with it, without a version."""
    created: int
    """Seconds since 1970: of the base, or of the version."""
    adapter_name: str | None = None
    adapter_id: UUID | None = None
    version: int | None = None
    spec: AdapterSpec | None = None
    weights_key: str | None = None
    """Where the object store holds the weights."""
