"""Usage as it is answered: buckets in order, the empty ones too, and what they add up to."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from loraplex.api.usage_schemas import StorageUsage, UsageResult, UsageTotal
from loraplex.platform.metering.usage import Stored, Used

Row = TypeVar("Row", Used, Stored)


def by_bucket(rows: Sequence[Row]) -> Mapping[datetime, list[Row]]:
    found: dict[datetime, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.bucket_start].append(row)
    return found


def counts(row: Used) -> dict[str, int]:
    return {
        "requests": row.requests,
        "prompt_tokens": row.prompt_tokens,
        "uncached_tokens": row.prompt_tokens - row.cached_tokens,
        "cached_tokens": row.cached_tokens,
        "output_tokens": row.output_tokens,
        "cost_micros": row.cost_micros,
    }


def labels(row: Used, adapters: Mapping[UUID, str]) -> dict[str, Any]:
    """The group's keys in the API's words."""
    keys = row.keys
    adapter_id = keys.get("adapter_id")
    return {
        "api_key_id": keys.get("api_key_id"),
        "member_id": keys.get("member_id"),
        "model": keys.get("base_model"),
        "adapter_id": adapter_id,
        "adapter": None if adapter_id is None else adapters.get(adapter_id),
        "version": keys.get("adapter_version"),
    }


def result(row: Used, adapters: Mapping[UUID, str]) -> UsageResult:
    return UsageResult(**(labels(row, adapters) | counts(row)))


def storage_of(rows: Iterable[Stored]) -> StorageUsage:
    kept = list(rows)
    return StorageUsage(
        byte_seconds=sum(row.byte_seconds for row in kept),
        cost_micros=sum(row.cost_micros for row in kept),
    )


def total_of(used: Iterable[Used], storage: StorageUsage | None) -> UsageTotal:
    names = ("requests", "prompt_tokens", "uncached_tokens", "cached_tokens", "output_tokens")
    found = dict.fromkeys((*names, "cost_micros"), 0)
    for row in used:
        for name, value in counts(row).items():
            found[name] += value
    return UsageTotal(**found, storage=storage)


def adapters_in(rows: Iterable[Used]) -> set[UUID]:
    return {row.keys["adapter_id"] for row in rows if row.keys.get("adapter_id") is not None}
