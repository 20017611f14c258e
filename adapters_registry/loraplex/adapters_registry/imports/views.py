"""What others see of an import: plain values that outlive the session, and no secrets."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Self
from uuid import UUID

from loraplex.adapters_registry.imports.models import AdapterImport, ImportStatus


@dataclass(frozen=True, slots=True)
class ImportView:
    id: UUID
    adapter: str
    source: Mapping[str, object]
    status: ImportStatus
    fetched_bytes: int
    attempts: int
    last_error: str | None
    error: Mapping[str, object] | None
    version: int | None
    created_at: datetime
    ended_at: datetime | None

    @classmethod
    def of(cls, row: AdapterImport) -> Self:
        return cls(
            id=row.id,
            adapter=row.adapter_name,
            source=row.source,
            status=ImportStatus(row.status),
            fetched_bytes=row.fetched_bytes,
            attempts=row.attempts,
            last_error=row.last_error,
            error=row.error,
            version=row.version,
            created_at=row.created_at,
            ended_at=row.ended_at,
        )
