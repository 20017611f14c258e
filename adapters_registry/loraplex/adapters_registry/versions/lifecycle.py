"""Moves a version's status by compare-and-set, so that a task may run twice or die at any moment.

    uploaded ──begin──▶ validating ──finish──▶ ready | rejected
        ▲                   │
        └────put_back───────┘        (and the sweeper, past the deadline)

What the platform failed to check is rejected too, in the end; uploading the same bytes again
reopens it for one more attempt.

`attempts` fences: whoever began attempt 3 can no longer finish once attempt 4 has begun. While one
runs, its deadline is a lease that it renews.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.rejection import ReasonCode, RejectionReason
from loraplex.adapters_registry.versions.endings import tell_of_ending, tell_of_quarantine
from loraplex.adapters_registry.versions.models import (
    Adapter,
    AdapterVersion,
    BaseModel,
    VersionStatus,
)
from loraplex.engine.protocol.adapter import AdapterSpec
from loraplex.engine.protocol.identity import Digest, TenantNamespace
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.platform.database.outbox import enqueue
from loraplex.platform.leases import LEASE_SECONDS
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import Tenant

VALIDATE_VERSION = "loraplex.adapters_registry.validate_version"

QUEUE_SECONDS = 20
"""From the upload, or a failed attempt, until the sweeper asks for validation again."""
MAX_ATTEMPTS = 5
MAX_CRASHES = 2
ENDINGS = frozenset({VersionStatus.READY, VersionStatus.REJECTED})
SWEEP_BATCH = 100
MAX_ERROR_CHARACTERS = 1000


@dataclass(frozen=True)
class Attempt:
    """One begun validation: what to check, and the fence."""

    tenant_id: TenantId
    version_id: UUID
    number: int
    digest: Digest
    base_digest: Digest
    config_digest: Digest
    weights_digest: Digest
    namespace: TenantNamespace
    table: ModuleTable


async def begin(session: AsyncSession, tenant_id: TenantId, version_id: UUID) -> Attempt | None:
    """Claim an uploaded version; None when it is not waiting for validation."""
    claim = (
        update(AdapterVersion)
        .where(
            AdapterVersion.tenant_id == tenant_id,
            AdapterVersion.id == version_id,
            AdapterVersion.status == VersionStatus.UPLOADED,
        )
        .values(
            status=VersionStatus.VALIDATING,
            attempts=AdapterVersion.attempts + 1,
            deadline_at=in_seconds(LEASE_SECONDS),
        )
        .returning(AdapterVersion.adapter_id, AdapterVersion.attempts)
    )
    claimed = (await session.execute(claim)).first()
    if claimed is None:
        return None
    row = (
        await session.execute(
            select(AdapterVersion, Tenant.namespace, BaseModel.module_table)
            .join(Adapter, Adapter.id == AdapterVersion.adapter_id)
            .join(Tenant, Tenant.id == AdapterVersion.tenant_id)
            .join(BaseModel, BaseModel.id == Adapter.base_model_id)
            .where(AdapterVersion.id == version_id, AdapterVersion.tenant_id == tenant_id)
            .execution_options(populate_existing=True)
        )
    ).one()
    version, namespace, table = row
    return Attempt(
        tenant_id=tenant_id,
        version_id=version_id,
        number=claimed.attempts,
        digest=Digest(version.digest),
        base_digest=Digest(version.base_digest),
        config_digest=Digest(version.config_digest),
        weights_digest=Digest(version.weights_digest),
        namespace=TenantNamespace(namespace),
        table=msgspec.convert(table, ModuleTable),
    )


async def renew(session: AsyncSession, attempt: Attempt) -> bool:
    """Say that the attempt is alive; False when it is no longer the current one."""
    return await settle(session, attempt, {"deadline_at": in_seconds(LEASE_SECONDS)})


async def accept(session: AsyncSession, attempt: Attempt, spec: AdapterSpec) -> bool:
    """Make the version ready; False when the attempt is no longer the current one."""
    values = {
        "status": VersionStatus.READY,
        "spec": msgspec.to_builtins(spec),
        "max_rank": spec.max_rank,
        "last_error": None,
    }
    return await settle(session, attempt, values)


async def reject(
    session: AsyncSession, attempt: Attempt, reasons: tuple[RejectionReason, ...]
) -> bool:
    """Refuse the version; False when the attempt is no longer the current one."""
    values = {"status": VersionStatus.REJECTED, "reasons": msgspec.to_builtins(reasons)}
    return await settle(session, attempt, values)


async def put_back(session: AsyncSession, attempt: Attempt, error: str) -> bool:
    """Wait for another attempt, or give up after the last; False when no longer current."""
    error = error[:MAX_ERROR_CHARACTERS]
    if attempt.number >= MAX_ATTEMPTS:
        values = given_up() | {"last_error": error}
    else:
        wait = in_seconds(QUEUE_SECONDS * attempt.number)
        values = {"status": VersionStatus.UPLOADED, "deadline_at": wait, "last_error": error}
    return await settle(session, attempt, values)


async def put_away(session: AsyncSession, attempt: Attempt, error: str) -> bool:
    """Refuse and quarantine what crashes its validator; once may still be the machine's fault."""
    if attempt.number < MAX_CRASHES:
        return await put_back(session, attempt, error)
    why = "checking it crashed the validator"
    message = (
        "Checking this upload crashed the process that did, each time. It is quarantined until an "
        "operator has looked at it; uploading the same files again changes nothing."
    )
    reason = RejectionReason(ReasonCode.VALIDATION_CRASHED, message)
    values = {
        "status": VersionStatus.REJECTED,
        "reasons": msgspec.to_builtins([reason]),
        "quarantined_at": func.now(),
        "quarantine_reason": why,
        "last_error": error[:MAX_ERROR_CHARACTERS],
    }
    has_settled = await settle(session, attempt, values)
    if has_settled:
        await tell_of_quarantine(session, attempt.tenant_id, attempt.version_id, why)
    return has_settled


async def settle(session: AsyncSession, attempt: Attempt, values: dict[str, Any]) -> bool:
    statement = (
        update(AdapterVersion)
        .where(
            AdapterVersion.tenant_id == attempt.tenant_id,
            AdapterVersion.id == attempt.version_id,
            AdapterVersion.status == VersionStatus.VALIDATING,
            AdapterVersion.attempts == attempt.number,
        )
        .values(**values)
        .returning(AdapterVersion.id)
    )
    has_settled = await session.scalar(statement) is not None
    if has_settled and values.get("status") in ENDINGS:
        await tell_of_ending(session, attempt.tenant_id, attempt.version_id)
    return has_settled


async def ask(session: AsyncSession, version: AdapterVersion) -> None:
    """Have the version validated once this transaction has committed."""
    arguments = {"tenant_id": str(version.tenant_id), "version_id": str(version.id)}
    await enqueue(session, VALIDATE_VERSION, arguments)


async def reopen(session: AsyncSession, version: AdapterVersion) -> None:
    """Undelete a version whose bytes came again, and ask again for one that was given up."""
    if version.deleted_at is not None:
        version.deleted_at = None
        await session.flush()
    if version.status != VersionStatus.REJECTED or not is_given_up(version):
        return
    statement = (
        update(AdapterVersion)
        .where(AdapterVersion.id == version.id, AdapterVersion.status == VersionStatus.REJECTED)
        .values(status=VersionStatus.UPLOADED, reasons=[], deadline_at=in_seconds(QUEUE_SECONDS))
    )
    await session.execute(statement)
    await ask(session, version)


async def sweep(session: AsyncSession) -> int:
    """Ask again for what has waited past its deadline; give up on what was tried too often.

    Answers how many versions it moved. Two sweepers at once take different rows.
    """
    late = (
        select(AdapterVersion)
        .where(
            AdapterVersion.status.in_((VersionStatus.UPLOADED, VersionStatus.VALIDATING)),
            AdapterVersion.deadline_at < func.now(),
        )
        .order_by(AdapterVersion.deadline_at)
        .limit(SWEEP_BATCH)
        .with_for_update(skip_locked=True)
    )
    versions = (await session.scalars(late)).all()
    for version in versions:
        is_given_up = version.attempts >= MAX_ATTEMPTS
        if is_given_up:
            values = given_up()
        else:
            values = {"status": VersionStatus.UPLOADED, "deadline_at": in_seconds(QUEUE_SECONDS)}
            await ask(session, version)
        await session.execute(
            update(AdapterVersion).where(AdapterVersion.id == version.id).values(**values)
        )
        if is_given_up:
            await tell_of_ending(session, TenantId(version.tenant_id), version.id)
    return len(versions)


def given_up() -> dict[str, Any]:
    message = (
        f"The platform could not check this upload in {MAX_ATTEMPTS} attempts; nothing says that "
        "the upload is wrong. Upload the same files again to have them checked once more."
    )
    reason = RejectionReason(ReasonCode.VALIDATION_FAILED, message)
    return {"status": VersionStatus.REJECTED, "reasons": msgspec.to_builtins([reason])}


def is_given_up(version: AdapterVersion) -> bool:
    return any(reason.get("code") == ReasonCode.VALIDATION_FAILED for reason in version.reasons)


def in_seconds(seconds: float) -> ColumnElement[Any]:
    return func.now() + timedelta(seconds=seconds)
