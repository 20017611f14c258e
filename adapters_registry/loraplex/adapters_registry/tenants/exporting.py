"""Writes all that a tenant has into one archive: its rows as JSON lines, its adapters as files.

export.json                    what the archive is, and how many rows each table has
tables/<table>.jsonl           a row a line, without hashes and without what is sealed
blobs/<sha256>                 each stored file once; `adapter_versions` say whose it is
"""

import asyncio
import io
import json
import tarfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from sqlalchemy import (
    ColumnClause,
    Text,
    cast,
    column,
    func,
    literal_column,
    select,
    table,
    text,
    update,
)
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.errors import BlobMissing
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.tenants.catalogue import TenantTable, tenant_tables
from loraplex.adapters_registry.tenants.claims import LONGEST_ERROR, Claim, claim_export, renew
from loraplex.adapters_registry.uploads.models import Blob
from loraplex.engine.protocol.identity import Digest, TenantNamespace
from loraplex.platform.blobs import blob_key
from loraplex.platform.database.sessions import Database
from loraplex.platform.leases import LeaseLost, under_lease
from loraplex.platform.lifecycle.models import ExportStatus, TenantExport
from loraplex.platform.lifecycle.service import export_key

FORMAT = "loraplex-tenant-export/1"
MAX_ATTEMPTS = 3


@dataclass(frozen=True)
class Exporter:
    """Works on role `system`, beside the store."""

    database: Database
    store: ObjectStore
    scratch_dir: Path

    async def export(self, export_id: UUID) -> bool:
        """Write the archive and store it; False when there is nothing to do.

        A second run writes it anew under the same key, so it may be killed at any moment.
        """
        async with self.database.unit_of_work() as session:
            claim = await claim_export(session, export_id)
        if claim is None:
            return False
        try:
            size_bytes = await under_lease(
                self._write(claim), lambda: renew(self.database, TenantExport, claim)
            )
        except LeaseLost:
            return False
        except Exception as error:
            await self._failed(claim, error)
            raise
        done = {"status": ExportStatus.COMPLETED, "size_bytes": size_bytes, "last_error": None}
        await self._record(claim, completed_at=func.now(), **done)
        return True

    async def _write(self, claim: Claim) -> int:
        self.scratch_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        with TemporaryDirectory(dir=self.scratch_dir, prefix="export-") as scratch:
            path = Path(scratch) / "export.tar.gz"
            with tarfile.open(path, "x:gz", compresslevel=1) as archive:
                rows = await self._write_tables(claim, archive, Path(scratch))
                missing = await self._write_blobs(claim, archive, Path(scratch))
                told = {
                    "format": FORMAT,
                    "tenant": claim.tenant_name,
                    "tenant_id": str(claim.tenant_id),
                    "written_at": datetime.now(UTC).isoformat(),
                    "rows": rows,
                    "missing_blobs": missing,
                }
                _add(archive, "export.json", json.dumps(told, indent=2).encode())
            size_bytes = path.stat().st_size
            key = export_key(claim.namespace, claim.row_id)
            await asyncio.to_thread(self.store.upload, path, key)
            return size_bytes

    async def _write_tables(
        self, claim: Claim, archive: tarfile.TarFile, scratch: Path
    ) -> dict[str, int]:
        counts = {}
        async with self.database.unit_of_work() as session:
            # One moment for all tables: rows refer to each other.
            await session.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
            tenants = TenantTable("tenants", ["id", "name", "display_name", "state", "created_at"])
            for one in [tenants, *await tenant_tables(session)]:
                path = scratch / "rows.jsonl"
                counts[one.name] = await _write_rows(session, one, claim, path)
                await asyncio.to_thread(archive.add, path, f"tables/{one.name}.jsonl")
                path.unlink()
        return counts

    async def _write_blobs(
        self, claim: Claim, archive: tarfile.TarFile, scratch: Path
    ) -> list[str]:
        async with self.database.unit_of_work() as session:
            mine = select(Blob.digest).where(Blob.tenant_id == claim.tenant_id)
            digests = (await session.scalars(mine.order_by(Blob.digest))).all()
        missing = []
        for digest in digests:
            path = scratch / "blob"
            key = blob_key(TenantNamespace(claim.namespace), Digest(digest))
            try:
                await asyncio.to_thread(self.store.download, key, path)
            except BlobMissing:
                missing.append(digest)
                path.unlink(missing_ok=True)
                continue
            name = f"blobs/{digest.removeprefix('sha256:')}"
            await asyncio.to_thread(archive.add, path, name)
            path.unlink()
        return missing

    async def _failed(self, claim: Claim, error: Exception) -> None:
        is_last = claim.attempt >= MAX_ATTEMPTS
        status = ExportStatus.FAILED if is_last else ExportStatus.QUEUED
        await self._record(claim, status=status, last_error=type(error).__name__[:LONGEST_ERROR])

    async def _record(self, claim: Claim, **values: object) -> None:
        async with self.database.unit_of_work() as session:
            await session.execute(
                update(TenantExport)
                .where(TenantExport.id == claim.row_id, TenantExport.attempts == claim.attempt)
                .values(**values)
            )


async def _write_rows(session: AsyncSession, one: TenantTable, claim: Claim, path: Path) -> int:
    owner: ColumnClause[UUID] = column("id" if one.name == "tenants" else "tenant_id")
    rows = table(one.name, owner, *(column(name) for name in one.columns if name != owner.name))
    mine = select(*rows.c).where(owner == claim.tenant_id).subquery("r")
    statement = select(cast(func.row_to_json(literal_column("r")), Text)).select_from(mine)
    count = 0
    with path.open("w") as file:
        async for (line,) in await session.stream(statement):
            file.write(f"{line}\n")
            count += 1
    return count


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))
