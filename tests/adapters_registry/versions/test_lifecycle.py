"""Tasks may run twice, die or never come; a version still ends once, as ready or rejected."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import func, select, update

from loraplex.adapters_registry import validation, validator_pool
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.peft import spec_from_files
from loraplex.adapters_registry.rejection import ReasonCode
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.adapters_registry.validator_pool import ValidatorPool
from loraplex.adapters_registry.versions import lifecycle
from loraplex.adapters_registry.versions.checking import VersionChecker
from loraplex.adapters_registry.versions.lifecycle import MAX_ATTEMPTS, Attempt
from loraplex.adapters_registry.versions.models import AdapterVersion, VersionStatus
from loraplex.adapters_registry.versions.service import register_base
from loraplex.engine.protocol.identity import digest_of_bytes, digest_of_file
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.platform.blobs import blob_key
from loraplex.platform.database.outbox import OutboxMessage
from loraplex.platform.database.sessions import Database
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.metrics import ADAPTER_REJECTIONS
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.principals import TenantPrincipal
from loraplex.platform.webhooks.models import WebhookEvent
from tests.adapters_registry.samples import sample

UPLOADED, VALIDATING = VersionStatus.UPLOADED, VersionStatus.VALIDATING
READY, REJECTED = VersionStatus.READY, VersionStatus.REJECTED


async def told(uploaded: "Uploaded") -> list[tuple[str, object]]:
    """The events of the version so far, with what they say of reasons."""
    statement = (
        select(WebhookEvent)
        .where(WebhookEvent.tenant_id == uploaded.tenant.tenant_id)
        .where(WebhookEvent.type.startswith("adapter.version."))
        .order_by(WebhookEvent.created_at)
    )
    async with uploaded.database.unit_of_work() as session:
        events = (await session.scalars(statement)).all()
    return [(event.type, event.data.get("reasons")) for event in events]


class Uploaded:
    """One uploaded version, and what a test does to it."""

    def __init__(
        self, database: Database, tenant: TenantPrincipal, files: tuple[bytes, Path]
    ) -> None:
        self.database, self.tenant, self.files = database, tenant, files

    async def row(self) -> AdapterVersion:
        mine = AdapterVersion.tenant_id == self.tenant.tenant_id
        async with self.database.unit_of_work() as session:
            return (await session.scalars(select(AdapterVersion).where(mine))).one()

    async def begin(self) -> Attempt | None:
        row = await self.row()
        async with self.database.unit_of_work() as session:
            return await lifecycle.begin(session, self.tenant.tenant_id, row.id)

    async def begun(self) -> Attempt:
        attempt = await self.begin()
        assert attempt is not None
        return attempt

    async def accept(self, attempt: Attempt) -> bool:
        spec = spec_from_files(*self.files, attempt.table)
        async with self.database.unit_of_work() as session:
            return await lifecycle.accept(session, attempt, spec)

    async def put_back(self, attempt: Attempt, error: str) -> bool:
        async with self.database.unit_of_work() as session:
            return await lifecycle.put_back(session, attempt, error)

    async def pass_deadline(self) -> None:
        mine = AdapterVersion.tenant_id == self.tenant.tenant_id
        late = datetime.now(UTC) - timedelta(days=1)
        async with self.database.unit_of_work() as session:
            await session.execute(update(AdapterVersion).where(mine).values(deadline_at=late))

    async def sweep(self) -> None:
        async with self.database.unit_of_work() as session:
            await lifecycle.sweep(session)

    async def messages(self) -> int:
        mine = OutboxMessage.arguments["tenant_id"].astext == str(self.tenant.tenant_id)
        async with self.database.unit_of_work() as session:
            count = select(func.count()).select_from(OutboxMessage).where(mine)
            return (await session.execute(count)).scalar_one()


@pytest.fixture
async def uploaded(
    uploads: Uploads, system_database: Database, tenant: TenantPrincipal, tmp_path: Path
) -> Uploaded:
    files = sample().write(tmp_path)
    await uploads.submit(tenant, "support", *files)
    return Uploaded(system_database, tenant, files)


async def test_only_one_run_gets_a_version(uploaded: Uploaded) -> None:
    attempts = await asyncio.gather(*(uploaded.begin() for _ in range(4)))
    (attempt,) = [attempt for attempt in attempts if attempt is not None]
    row = await uploaded.row()
    assert (row.status, row.attempts, attempt.number) == (VALIDATING, 1, 1)
    assert row.deadline_at > datetime.now(UTC)


async def test_of_two_checks_at_once_one_does_nothing(
    uploaded: Uploaded, checker: VersionChecker
) -> None:
    row = await uploaded.row()
    done = await asyncio.gather(
        *(checker.check(uploaded.tenant.tenant_id, row.id) for _ in range(2))
    )
    assert sorted(done) == [False, True]
    row = await uploaded.row()
    assert (row.status, row.attempts, row.max_rank) == (READY, 1, 4)
    assert not await checker.check(uploaded.tenant.tenant_id, row.id)


async def test_a_check_that_died_is_begun_again_and_cannot_speak_from_the_grave(
    uploaded: Uploaded,
) -> None:
    dead = await uploaded.begun()
    await uploaded.sweep()
    assert (await uploaded.row()).status == VALIDATING  # not yet past its deadline
    await uploaded.pass_deadline()
    await uploaded.sweep()
    assert (await uploaded.row()).status == UPLOADED
    assert not await uploaded.accept(dead)
    alive = await uploaded.begun()
    assert alive.number == 2
    assert not await uploaded.accept(dead)
    assert not await uploaded.put_back(dead, "late")
    assert await uploaded.accept(alive)
    assert (await uploaded.row()).status == READY


async def test_a_message_that_was_lost_is_sent_again_once_a_deadline(uploaded: Uploaded) -> None:
    assert await uploaded.messages() == 1
    await uploaded.sweep()
    assert await uploaded.messages() == 1
    await uploaded.pass_deadline()
    await uploaded.sweep()
    assert await uploaded.messages() == 2
    await uploaded.sweep()
    assert await uploaded.messages() == 2


async def test_sweepers_at_once_send_one_message(uploaded: Uploaded) -> None:
    await uploaded.pass_deadline()
    await asyncio.gather(*(uploaded.sweep() for _ in range(3)))
    assert await uploaded.messages() == 2


async def test_what_has_ended_is_never_swept(uploaded: Uploaded, checker: VersionChecker) -> None:
    row = await uploaded.row()
    await checker.check(uploaded.tenant.tenant_id, row.id)
    await uploaded.pass_deadline()
    await uploaded.sweep()
    assert (await uploaded.row()).status == READY
    assert await uploaded.messages() == 1


async def test_after_the_last_attempt_the_owner_is_told_whose_fault_it_was(
    uploaded: Uploaded,
) -> None:
    for number in range(1, MAX_ATTEMPTS + 1):
        attempt = await uploaded.begun()
        assert attempt.number == number
        assert await uploaded.put_back(attempt, f"the store is away ({number})")
    row = await uploaded.row()
    assert row.status == REJECTED
    assert row.last_error == f"the store is away ({MAX_ATTEMPTS})"
    assert [reason["code"] for reason in row.reasons] == [ReasonCode.VALIDATION_FAILED]
    assert await uploaded.begin() is None


async def test_an_upload_that_crashes_its_validator_twice_is_quarantined(
    uploaded: Uploaded,
    uploads: Uploads,
    checker: VersionChecker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(validation, "POOL", ValidatorPool())
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    monkeypatch.setattr(validator_pool, "COMMAND", ("-c", crash))
    row = await uploaded.row()
    await checker.check(uploaded.tenant.tenant_id, row.id)
    assert (await uploaded.row()).status == UPLOADED
    await checker.check(uploaded.tenant.tenant_id, row.id)
    row = await uploaded.row()
    assert row.status == REJECTED
    assert [reason["code"] for reason in row.reasons] == [ReasonCode.VALIDATION_CRASHED]
    assert "-11" in (row.last_error or "")
    assert row.quarantined_at is not None
    assert "crashed" in (row.quarantine_reason or "")
    await uploads.submit(uploaded.tenant, "support", *uploaded.files)
    assert (await uploaded.row()).status == REJECTED


async def test_runs_that_always_die_end_in_a_rejection_too(uploaded: Uploaded) -> None:
    for _ in range(MAX_ATTEMPTS):
        await uploaded.begun()
        await uploaded.pass_deadline()
        await uploaded.sweep()
    row = await uploaded.row()
    assert row.status == REJECTED
    assert [reason["code"] for reason in row.reasons] == [ReasonCode.VALIDATION_FAILED]


async def test_without_the_store_a_version_waits_and_remembers_why(
    uploaded: Uploaded, checker: VersionChecker, services: Settings
) -> None:
    nowhere = services.model_copy(update={"s3_endpoint": f"http://127.0.0.1:{free_port()}"})
    broken = replace(checker, store=ObjectStore.from_settings(nowhere))
    row = await uploaded.row()
    await broken.check(uploaded.tenant.tenant_id, row.id)
    row = await uploaded.row()
    assert (row.status, row.attempts) == (UPLOADED, 1)
    assert "object store" in (row.last_error or "")
    assert await checker.check(uploaded.tenant.tenant_id, row.id)
    row = await uploaded.row()
    assert (row.status, row.last_error) == (READY, None)


async def test_bytes_that_rotted_in_the_store_are_never_accepted(
    uploaded: Uploaded, checker: VersionChecker, store: ObjectStore
) -> None:
    key = blob_key(uploaded.tenant.namespace, digest_of_file(uploaded.files[1]))
    store.put(key, store.read(key)[:-1] + b"\x7f")
    row = await uploaded.row()
    await checker.check(uploaded.tenant.tenant_id, row.id)
    row = await uploaded.row()
    assert row.status == UPLOADED
    assert "holds bytes of" in (row.last_error or "")


async def test_a_base_that_changed_since_the_upload_is_a_reason(
    uploaded: Uploaded, checker: VersionChecker, base: ModuleTable
) -> None:
    changed = msgspec.structs.replace(base, base_digest=digest_of_bytes(b"changed"))
    async with uploaded.database.unit_of_work() as session:
        await register_base(session, changed)
    row = await uploaded.row()
    await checker.check(uploaded.tenant.tenant_id, row.id)
    row = await uploaded.row()
    assert row.status == REJECTED
    assert "has changed" in str(row.reasons)


async def test_its_owner_is_told_once_when_a_version_is_ready(
    uploaded: Uploaded, checker: VersionChecker
) -> None:
    row = await uploaded.row()
    for _ in range(2):
        await checker.check(uploaded.tenant.tenant_id, row.id)
    assert await told(uploaded) == [
        ("adapter.version.uploaded", None),
        ("adapter.version.validated", None),
    ]


async def test_a_rejection_is_told_with_its_codes_and_counted(uploaded: Uploaded) -> None:
    code = ReasonCode.VALIDATION_FAILED
    before = ADAPTER_REJECTIONS.labels(code)._value.get()
    for _ in range(MAX_ATTEMPTS):
        await uploaded.begun()
        await uploaded.pass_deadline()
        await uploaded.sweep()
    await uploaded.pass_deadline()
    await uploaded.sweep()
    assert (await told(uploaded))[1:] == [("adapter.version.rejected", [code])]
    assert ADAPTER_REJECTIONS.labels(code)._value.get() == before + 1
