"""One validation from claim to verdict: fetch, check in a process apart, record."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from loraplex.adapters_registry.errors import BlobMissing, StoreUnavailable
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.rejection import ReasonCode, RejectionReason
from loraplex.adapters_registry.scratch import scratch_folder
from loraplex.adapters_registry.validation import (
    ValidationLimits,
    ValidatorCrashed,
    ValidatorFailed,
    validate_files,
)
from loraplex.adapters_registry.validator import Verdict
from loraplex.adapters_registry.versions import lifecycle
from loraplex.adapters_registry.versions.lifecycle import Attempt
from loraplex.engine.protocol.identity import Digest, digest_of_file
from loraplex.platform.blobs import blob_key
from loraplex.platform.database.sessions import Database
from loraplex.platform.leases import LeaseLost, under_lease
from loraplex.platform.switches.names import NO_UPLOADS
from loraplex.platform.switches.service import is_on
from loraplex.platform.tenancy.identity import TenantId


class BytesDiffer(RuntimeError):
    """The store gave other bytes than the digest they lie under."""


@dataclass(frozen=True)
class VersionChecker:
    """Validates versions, on role `system`."""

    database: Database
    store: ObjectStore
    limits: ValidationLimits
    scratch_dir: Path
    """Where the files lie while they are checked."""

    async def check(self, tenant_id: TenantId, version_id: UUID) -> bool:
        """Bring an uploaded version to ready or rejected, or put it back with what went wrong.

        Does nothing, and answers False, when another run has the version or had it, and while
        uploads are off: what came in before must reach no validator either. No transaction is open
        while the files are fetched and checked.
        """
        async with self.database.unit_of_work() as session:
            if await is_on(session, NO_UPLOADS):
                return False
            attempt = await lifecycle.begin(session, tenant_id, version_id)
        if attempt is None:
            return False

        async def renew() -> bool:
            async with self.database.unit_of_work() as session:
                return await lifecycle.renew(session, attempt)

        try:
            verdict = await under_lease(asyncio.to_thread(self.verdict, attempt), renew)
        except LeaseLost:
            return False
        except ValidatorCrashed as error:
            async with self.database.unit_of_work() as session:
                return await lifecycle.put_away(session, attempt, f"{error}")
        except (StoreUnavailable, BlobMissing, BytesDiffer, ValidatorFailed, OSError) as error:
            async with self.database.unit_of_work() as session:
                return await lifecycle.put_back(session, attempt, f"{error}")
        async with self.database.unit_of_work() as session:
            if verdict.spec is not None:
                return await lifecycle.accept(session, attempt, verdict.spec)
            return await lifecycle.reject(session, attempt, verdict.reasons)

    def verdict(self, attempt: Attempt) -> Verdict:
        if attempt.table.base_digest != attempt.base_digest:
            message = (
                f"The base model {attempt.table.base_name} has changed since the upload; "
                "upload the adapter again."
            )
            return Verdict(reasons=(RejectionReason(ReasonCode.WRONG_BASE_SHAPE, message),))
        with scratch_folder(self.scratch_dir) as folder:
            config = self.fetch(attempt, attempt.config_digest, folder / "adapter_config")
            weights = self.fetch(attempt, attempt.weights_digest, folder / "adapter_model")
            return validate_files(config, weights, attempt.table, self.limits)

    def fetch(self, attempt: Attempt, digest: Digest, path: Path) -> Path:
        key = blob_key(attempt.namespace, digest)
        self.store.download(key, path)
        if (found := digest_of_file(path)) != digest:
            raise BytesDiffer(f"{key} holds bytes of {found}")
        return path
