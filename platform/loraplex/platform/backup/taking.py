"""Takes a backup while the platform serves: one snapshot of the database, then its bytes.

Blobs never change, so what the snapshot refers to may be copied after it; deleting blobs waits
until that is done.
"""

import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
from botocore.exceptions import BotoCoreError, ClientError

from loraplex.engine.protocol.identity import Digest, TenantNamespace
from loraplex.platform.backup import programs
from loraplex.platform.backup.errors import BackupIncomplete, BackupTargetExists
from loraplex.platform.backup.installation import reached
from loraplex.platform.backup.manifest import (
    CHUNK_BYTES,
    DUMP,
    FORMAT,
    OBJECTS,
    SECRETS,
    Manifest,
    described,
    files_of,
    proof,
)
from loraplex.platform.blobs import DELETION_LOCK, blob_key
from loraplex.platform.database.urls import libpq_url
from loraplex.platform.embedded.objects import Objects
from loraplex.platform.embedded.postgres import DATABASE, MAJOR_VERSION, SUPERUSER, Postgres
from loraplex.platform.embedded.private_files import write_private
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings

ARCHIVE = ".tar"
CREDENTIALS_FILE = "credentials.json"
BLOBS = """
SELECT t.namespace, b.digest FROM blobs b JOIN tenants t ON t.id = b.tenant_id
WHERE EXISTS (SELECT FROM adapter_versions v WHERE v.tenant_id = b.tenant_id
              AND b.digest IN (v.config_digest, v.weights_digest))
ORDER BY 1, 2
"""


def take(data_dir: Path, target: Path, *, with_secrets: bool) -> Manifest:
    """Write a backup of the installation in `data_dir` to a new folder, or to a new `.tar` file.

    Raises BackupTargetExists, NotEmbedded and BackupIncomplete; nothing is left at `target` then.
    """
    os.umask(0o077)  # it holds tenants' data
    if target.exists():
        raise BackupTargetExists(
            f"{target} exists already: give a new name, nothing is overwritten.",
            field="target",
            rule="a new name",
        )
    scratch = target.with_name(f".{target.name}.{uuid4().hex}")
    scratch.mkdir(parents=True)
    try:
        with reached(data_dir.absolute()) as (settings, services):
            manifest = _fill(scratch, settings, *services, with_secrets=with_secrets)
        if target.suffix == ARCHIVE:
            _pack(scratch, target)
        else:
            scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return manifest


def _fill(
    folder: Path, settings: Settings, server: Postgres, store: Objects, *, with_secrets: bool
) -> Manifest:
    secrets = SecretKeys.from_settings(settings)
    with _snapshot(server) as (snapshot, connection):
        revision = _one(connection, "SELECT version_num FROM alembic_version")
        dump = ["--format=custom", f"--snapshot={snapshot}", f"--file={folder / DUMP}"]
        programs.run("pg_dump", server, dump)
        for namespace, digest in connection.execute(BLOBS):
            key = blob_key(TenantNamespace(namespace), Digest(digest))
            _download(store, key, folder / OBJECTS / key)
    if with_secrets:
        write_private(folder / SECRETS / "secret_key", ",".join(_keys(settings)))
        credentials = settings.data_dir / CREDENTIALS_FILE
        if credentials.is_file():
            write_private(folder / SECRETS / CREDENTIALS_FILE, credentials.read_text())
    backup_id = uuid4().hex
    manifest = Manifest(
        format=FORMAT,
        id=backup_id,
        loraplex_version=version("loraplex"),
        postgres_major=MAJOR_VERSION,
        revision=revision,
        created_at=datetime.now(UTC).isoformat(),
        has_secrets=with_secrets,
        secret_proof=proof(secrets, backup_id),
        files={name: described(folder / name) for name in files_of(folder)},
    )
    manifest.write(folder)
    return manifest


@contextmanager
def _snapshot(server: Postgres) -> Iterator[tuple[str, psycopg.Connection]]:
    """A snapshot that others can read by its name, while nobody deletes the blobs in it."""
    url = libpq_url(server.url(SUPERUSER, server.password, DATABASE))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [DELETION_LOCK])
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield _one(connection, "SELECT pg_export_snapshot()"), connection


def _one(connection: psycopg.Connection, query: LiteralString) -> str:
    row = connection.execute(query).fetchone()
    if row is None:
        raise BackupIncomplete("The database has no schema yet: start the platform once first.")
    return str(row[0])


def _download(store: Objects, key: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        body: Any = store.client.get_object(Bucket=store.bucket, Key=key)["Body"]
        with path.open("xb") as file:
            for chunk in body.iter_chunks(CHUNK_BYTES):
                file.write(chunk)
    except (BotoCoreError, ClientError) as error:
        raise BackupIncomplete(
            f"The store does not give {key}, which the database refers to: {error}", value=key
        ) from error


def _keys(settings: Settings) -> list[str]:
    if settings.secret_key is not None:
        return [settings.secret_key.get_secret_value()]
    return [(settings.data_dir / "secret_key").read_text().strip()]


def _pack(folder: Path, target: Path) -> None:
    """One file of the folder's; the bytes of adapters do not compress."""
    scratch = target.with_name(f".{target.name}.{uuid4().hex}.part")
    try:
        with tarfile.open(scratch, "x") as archive:
            for name in sorted([*files_of(folder), "manifest.json"]):
                archive.add(folder / name, name, recursive=False)
        scratch.rename(target)
    finally:
        scratch.unlink(missing_ok=True)
