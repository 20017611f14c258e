"""However uploads begin, die and end: what is reserved and stored is what the rows say, no more."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar
from uuid import UUID, uuid4

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select

from loraplex.adapters_registry.errors import OtherBase
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.uploads import lifecycle, quota, sweeping
from loraplex.adapters_registry.uploads.completion import UploadCompleter
from loraplex.adapters_registry.uploads.errors import StorageQuotaExceeded, TooManyOpenUploads
from loraplex.adapters_registry.uploads.files import CONFIG_NAME, MIN_PART_BYTES, WEIGHTS_NAME
from loraplex.adapters_registry.uploads.models import OPEN, StorageReservation, Upload
from loraplex.adapters_registry.uploads.reader import UploadReader
from loraplex.adapters_registry.uploads.resumable import ResumableUploads
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.adapters_registry.uploads.staging import Staging
from loraplex.adapters_registry.versions.service import register_base
from loraplex.engine.protocol.identity import digest_of_bytes
from loraplex.platform.database.sessions import Database
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.administration import TenantAdministration
from tests.adapters_registry.samples import TINY
from tests.adapters_registry.uploads.conftest import Client
from tests.platform.tenancy.signed_in import through_key
from tests.soak import examples

LIMIT_BYTES, OPEN_LIMIT = 40_000, 4
CONFIG = b"{}"
SIZES = st.sampled_from([100, 7_000, 15_000])


@dataclass
class Begun:
    """What the test knows of an upload: its bytes, and whether they are what was announced."""

    id: UUID
    weights: bytes
    is_true: bool

    @property
    def size_bytes(self) -> int:
        return len(CONFIG) + len(self.weights)


class QuotaMachine(RuleBasedStateMachine):
    """One tenant against the real database and store; the model is a dict and a set."""

    pending: Bundle[Begun] = Bundle("pending")
    completing: Bundle[Begun] = Bundle("completing")

    services: ClassVar[Settings]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = TemporaryDirectory()
        self.reserved: dict[UUID, int] = {}
        self.stored: dict[str, int] = {}
        self.client = self.runner.run(self._client(self.services))

    async def _client(self, services: Settings) -> Client:
        assert services.database_url is not None
        assert services.database_system_url is not None
        app = Database(services.database_url.get_secret_value())
        system = Database(services.database_system_url.get_secret_value())
        store = ObjectStore.from_settings(services)
        table = msgspec.structs.replace(TINY, base_name=f"tiny-{uuid4().hex}")
        administration = TenantAdministration(SecretKeys.from_settings(services))
        async with system.unit_of_work() as session:
            await register_base(session, table)
            tenant = await administration.create_tenant(
                session,
                f"t-{uuid4().hex}",
                max_storage_bytes=LIMIT_BYTES,
                max_open_uploads=OPEN_LIMIT,
            )
            key, _ = await administration.create_key(session, tenant, "test")
            principal = through_key(tenant, key)
        uploads = Uploads(app, store, table.base_name, max_upload_bytes=1_000_000)
        staging = Staging(store)
        resumable = ResumableUploads(
            app,
            UploadReader(app, staging),
            staging,
            uploads,
            MIN_PART_BYTES,
            timedelta(hours=1),
        )
        completer = UploadCompleter(
            system, store, uploads.max_upload_bytes, Path(self.folder.name, "archives")
        )
        return Client(principal, resumable, completer, system, Path(self.folder.name))

    def teardown(self) -> None:
        self.runner.run(self.client.system.dispose())
        self.runner.run(self.client.resumable.database.dispose())
        self.runner.close()
        self.folder.cleanup()

    @property
    def used_bytes(self) -> int:
        return sum(self.reserved.values()) + sum(self.stored.values())

    @rule(target=pending, size_bytes=SIZES, seed=st.integers(0, 1), is_true=st.booleans())
    def open(self, size_bytes: int, seed: int, is_true: bool) -> Any:
        weights = bytes([seed]) * size_bytes
        files = {CONFIG_NAME: CONFIG, WEIGHTS_NAME: weights}
        sha256 = {} if is_true else {WEIGHTS_NAME: "0" * 64}
        try:
            view = self.runner.run(self.client.create(files, sha256))
        except StorageQuotaExceeded:
            assert self.used_bytes + size_bytes + len(CONFIG) > LIMIT_BYTES
            return multiple()
        except TooManyOpenUploads:
            assert len(self.reserved) == OPEN_LIMIT
            return multiple()
        begun = Begun(view.id, weights, is_true)
        self.reserved[view.id] = begun.size_bytes
        return begun

    @rule(upload=consumes(pending))
    def abort(self, upload: Begun) -> None:
        self.runner.run(self.client.abort(upload.id))
        self.runner.run(self.client.abort(upload.id))
        del self.reserved[upload.id]

    @rule(upload=consumes(pending))
    def expire(self, upload: Begun) -> None:
        self.runner.run(self.client.move_clock(upload.id, expires_at=Upload.created_at))
        self.runner.run(self._sweep())
        del self.reserved[upload.id]

    @rule(target=completing, upload=consumes(pending))
    def fill_and_complete(self, upload: Begun) -> Begun:
        self.client.files = {CONFIG_NAME: CONFIG, WEIGHTS_NAME: upload.weights}
        for name in self.client.files:
            self.runner.run(self.client.put(upload.id, name, 1))
        self.runner.run(self.client.complete(upload.id))
        return upload

    @rule(upload=consumes(completing), twice=st.booleans())
    def run_job(self, upload: Begun, twice: bool) -> None:
        for _ in range(1 + twice):
            self.runner.run(self.client.run_job(upload.id))
        del self.reserved[upload.id]
        if upload.is_true:
            self._store(upload.weights)

    @rule(target=completing, upload=consumes(completing))
    def kill_the_job(self, upload: Begun) -> Any:
        """The job dies after its claim; the sweeper gives the upload to another, or up."""
        attempts = self.runner.run(self._die(upload.id))
        self.runner.run(self.client.move_clock(upload.id, deadline_at=Upload.created_at))
        self.runner.run(self._sweep())
        if attempts >= lifecycle.MAX_ATTEMPTS:
            del self.reserved[upload.id]
            return multiple()
        return upload

    @rule(size_bytes=SIZES, seed=st.integers(0, 1), refused=st.booleans())
    def send_a_form(self, size_bytes: int, seed: int, refused: bool) -> None:
        async def refuse(*_: object) -> None:
            raise OtherBase("a", "b")

        weights = bytes([seed]) * size_bytes
        path = Path(self.folder.name, "form")
        path.write_bytes(weights)
        settle = refuse if refused else None
        uploads = self.client.resumable.uploads
        try:
            self.runner.run(uploads.submit(self.client.tenant, "form", CONFIG, path, settle=settle))
        except StorageQuotaExceeded:
            assert self.used_bytes + size_bytes + len(CONFIG) > LIMIT_BYTES
        except OtherBase:
            assert refused
        else:
            self._store(weights)

    @invariant()
    def the_sums_are_the_rows(self) -> None:
        stored, reserved = self.runner.run(self.client.usage())
        assert reserved == sum(self.reserved.values())
        assert stored == sum(self.stored.values())
        assert 0 <= stored + reserved <= LIMIT_BYTES
        assert self.runner.run(self._holders()) == set(self.reserved)

    def _store(self, weights: bytes) -> None:
        for data in (CONFIG, weights):
            self.stored[digest_of_bytes(data)] = len(data)

    async def _sweep(self) -> None:
        """Until nothing is late: a sweep takes so many, and others' uploads come first."""
        for sweep in (
            sweeping.sweep_pending,
            sweeping.sweep_completing,
            quota.sweep_reservations,
        ):
            swept = 1
            while swept:
                async with self.client.system.unit_of_work() as session:
                    swept = await sweep(session)

    async def _die(self, upload_id: UUID) -> int:
        async with self.client.system.unit_of_work() as session:
            tenant_id = self.client.tenant.tenant_id
            completion = await lifecycle.claim(session, tenant_id, upload_id)
            assert completion is not None
            return completion.attempt

    async def _holders(self) -> set[UUID]:
        """Whose reservations there are, which must be the uploads that are open."""
        mine = StorageReservation.tenant_id == self.client.tenant.tenant_id
        open_uploads = (Upload.tenant_id == self.client.tenant.tenant_id) & Upload.status.in_(OPEN)
        async with self.client.system.unit_of_work() as session:
            held = set(await session.scalars(select(StorageReservation.id).where(mine)))
            assert held == set(await session.scalars(select(Upload.id).where(open_uploads)))
            return held


def test_reserved_and_stored_are_what_the_rows_say(
    services: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QuotaMachine, "services", services, raising=False)
    run_state_machine_as_test(
        QuotaMachine,
        settings=settings(
            max_examples=examples(3, 300), stateful_step_count=examples(10, 40), deadline=None
        ),
    )
