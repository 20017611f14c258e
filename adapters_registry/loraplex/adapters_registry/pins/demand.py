"""What workers should have near: what is pinned, and what has been asked for lately and often."""

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final
from uuid import UUID

import msgspec
from sqlalchemy import Float, cast, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.errors import ModelNotFound
from loraplex.adapters_registry.pins.models import AdapterPin
from loraplex.adapters_registry.versions.models import (
    Adapter,
    AdapterVersion,
    BaseModel,
)
from loraplex.adapters_registry.versions.service import Catalogue
from loraplex.adapters_registry.versions.standing import is_callable
from loraplex.engine.protocol.adapter import AdapterRef, AdapterSpec
from loraplex.engine.protocol.identity import Digest, TenantNamespace
from loraplex.platform.blobs import blob_key
from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.pools.wanted import replace_wanted
from loraplex.platform.tenancy.acting import acting_for
from loraplex.platform.tenancy.models import Tenant, TenantState
from loraplex.platform.tenancy.scopes import Role

HALF_LIFE: Final = timedelta(hours=1)
"""A call of an hour ago counts half: what matters is how often an hour, and how lately."""
LOOK_BACK: Final = timedelta(hours=12)
"""After twelve halvings a call counts for nothing."""
EXPECTED_LIMIT: Final = 32
"""Adapters of a base that are brought near without having been asked for."""
TENANT_LIMIT: Final = 12
"""Of these, so that one busy tenant does not take them all."""
LEAST_SCORE: Final = 0.25

Presign = Callable[[str], str]
"""A store's key to a URL that reads it."""


@dataclass
class Wanted:
    pinned: list[AdapterRef] = field(default_factory=list)
    expected: list[AdapterRef] = field(default_factory=list)


async def want_adapters(session: AsyncSession, presign: Presign) -> None:
    """Write anew what the workers of each base are to have near. Needs role `system`."""
    by_base: dict[str, Wanted] = defaultdict(Wanted)
    for base_name in await session.scalars(select(BaseModel.name)):
        by_base[base_name] = Wanted()
    for base_name, ref in await _pinned(session, presign):
        by_base[base_name].pinned.append(ref)
    for base_name, ref in await _expected(session, presign):
        wanted = by_base[base_name]
        if len(wanted.expected) < EXPECTED_LIMIT:
            wanted.expected.append(ref)
    for base_name, wanted in by_base.items():
        await replace_wanted(session, base_name, wanted.pinned, wanted.expected)


async def _pinned(session: AsyncSession, presign: Presign) -> list[tuple[str, AdapterRef]]:
    """Of each pinned adapter the version that its bare name means now."""
    rows = await session.execute(
        select(Tenant, Adapter.name)
        .join(AdapterPin, AdapterPin.tenant_id == Tenant.id)
        .join(
            Adapter,
            (Adapter.tenant_id == AdapterPin.tenant_id) & (Adapter.id == AdapterPin.adapter_id),
        )
        .where(Tenant.state == TenantState.ACTIVE)
        .order_by(AdapterPin.created_at)
    )
    catalogue, found = Catalogue(), []
    for tenant, name in rows.all():
        try:
            resolved = await catalogue.resolve(
                session, acting_for(tenant, Role.INFERENCE, "pins"), name
            )
        except ModelNotFound:  # it has no version that is ready
            continue
        if resolved.spec is not None and resolved.weights_key is not None:
            ref = AdapterRef(
                resolved.spec, TenantNamespace(tenant.namespace), presign(resolved.weights_key)
            )
            found.append((resolved.base_name, ref))
    return found


async def _expected(session: AsyncSession, presign: Presign) -> list[tuple[str, AdapterRef]]:
    """Adapters by their calls, those of an hour before counting half; the most wanted first."""
    age_seconds = cast(func.extract("epoch", func.now() - LedgerEntry.admitted_at), Float)
    halving = math.log(2) / HALF_LIFE.total_seconds()
    score = func.sum(func.exp(-age_seconds * halving)).label("score")
    calls = (
        select(LedgerEntry.tenant_id, LedgerEntry.adapter_digest, score)
        .where(
            LedgerEntry.adapter_digest.is_not(None),
            LedgerEntry.admitted_at > func.now() - LOOK_BACK,
        )
        .group_by(LedgerEntry.tenant_id, LedgerEntry.adapter_digest)
        .subquery()
    )
    rows = await session.execute(
        select(Tenant.id, Tenant.namespace, BaseModel.name, AdapterVersion.spec)
        .join(calls, calls.c.tenant_id == Tenant.id)
        .join(
            AdapterVersion,
            (AdapterVersion.tenant_id == Tenant.id)
            & (AdapterVersion.digest == calls.c.adapter_digest),
        )
        .join(
            Adapter,
            (Adapter.tenant_id == AdapterVersion.tenant_id)
            & (Adapter.id == AdapterVersion.adapter_id),
        )
        .join(BaseModel, BaseModel.id == Adapter.base_model_id)
        .where(
            Tenant.state == TenantState.ACTIVE,
            Adapter.deleted_at.is_(None),
            is_callable(AdapterVersion, BaseModel),
            calls.c.score > LEAST_SCORE,
        )
        .order_by(calls.c.score.desc())
        .limit(EXPECTED_LIMIT * 8)
    )
    taken: dict[tuple[UUID, str], int] = defaultdict(int)
    found = []
    for tenant_id, namespace, base_name, stored in rows.all():
        if taken[tenant_id, base_name] >= TENANT_LIMIT:
            continue
        taken[tenant_id, base_name] += 1
        spec = msgspec.convert(stored, AdapterSpec)
        own = TenantNamespace(namespace)
        key = blob_key(own, Digest(spec.weights_digest))
        found.append((base_name, AdapterRef(spec, own, presign(key))))
    return found
