"""Puts a backup into an empty data directory, after every byte of it was checked."""

import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from loraplex.platform.backup import programs
from loraplex.platform.backup.errors import (
    BackupDamaged,
    BackupIncompatible,
    BackupIncomplete,
    DataDirNotEmpty,
    SecretKeyMissing,
)
from loraplex.platform.backup.installation import embedded
from loraplex.platform.backup.manifest import (
    DUMP,
    OBJECTS,
    SECRETS,
    Manifest,
    is_right_secret,
    read_verified,
)
from loraplex.platform.backup.taking import CREDENTIALS_FILE
from loraplex.platform.database.migrate import knows_revision
from loraplex.platform.database.roles import create_roles
from loraplex.platform.embedded.data_directory import held
from loraplex.platform.embedded.objects import Objects
from loraplex.platform.embedded.own_services import role_passwords
from loraplex.platform.embedded.postgres import MAJOR_VERSION, Postgres
from loraplex.platform.embedded.private_files import private_dir, write_private
from loraplex.platform.embedded.processes import running
from loraplex.platform.secrets import SECRET_KEY_FILE, SecretKeys
from loraplex.platform.settings import Settings

MODELS = "models"
"""Base models are in no backup, so they may lie in the new directory already."""


def restore(source: Path, data_dir: Path, secret_key_file: Path | None = None) -> Manifest:
    """Make the installation of a backup in `data_dir`, which `loraplex serve` can then start.

    Raises BackupDamaged, BackupIncompatible, SecretKeyMissing, DataDirNotEmpty, NotEmbedded and
    BackupIncomplete; the directory is as empty as before then.
    """
    os.umask(0o077)
    data_dir = data_dir.absolute()
    _check_empty(data_dir)
    private_dir(data_dir)
    with _opened(source, data_dir) as folder:
        manifest = read_verified(folder)
        _check_compatible(manifest)
        secret = _secret_of(folder, manifest, secret_key_file)
        try:
            with held(data_dir, lambda _: None), ExitStack() as stack:
                write_private(data_dir / SECRET_KEY_FILE, secret)
                server, store = embedded(Settings(data_dir=data_dir))
                for service in (server, store):
                    stack.enter_context(running(service, data_dir / "logs"))
                _fill(folder, server, store)
                credentials = folder / SECRETS / CREDENTIALS_FILE
                if credentials.is_file():
                    write_private(data_dir / CREDENTIALS_FILE, credentials.read_text())
        except BaseException:
            _clear(data_dir)
            raise
    return manifest


def _fill(folder: Path, server: Postgres, store: Objects) -> None:
    create_roles(server.superuser_url, role_passwords(server.folder))
    arguments = ["--exit-on-error", "--single-transaction", str(folder / DUMP)]
    programs.run("pg_restore", server, arguments)
    objects = folder / OBJECTS
    try:
        for path in sorted(path for path in objects.rglob("*") if path.is_file()):
            key = path.relative_to(objects).as_posix()
            with path.open("rb") as body:
                store.client.put_object(Bucket=store.bucket, Key=key, Body=body)
    except (BotoCoreError, ClientError) as error:
        raise BackupIncomplete(f"The store does not take the adapters' bytes: {error}") from error


@contextmanager
def _opened(source: Path, data_dir: Path) -> Iterator[Path]:
    """The backup's folder; an archive is unpacked beside the data, where there is room for both."""
    if source.is_dir():
        yield source
        return
    with tempfile.TemporaryDirectory(prefix=".restore-", dir=data_dir.parent) as scratch:
        try:
            with tarfile.open(source, "r:") as archive:
                _unpack(archive, Path(scratch))
        except (OSError, tarfile.TarError) as error:
            raise BackupDamaged(f"{source} cannot be opened as a backup: {error}") from error
        yield Path(scratch)


def _unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Files alone, and none outside the folder; Pythons before 3.11.4 have no filters for it."""
    for member in archive:
        place = (folder / member.name).resolve()
        if not (member.isfile() or member.isdir()) or not place.is_relative_to(folder.resolve()):
            raise BackupDamaged(f"The archive holds {member.name!r}, which no backup has.")
        body = archive.extractfile(member)
        if body is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("wb") as file:
                shutil.copyfileobj(body, file)


def _check_empty(data_dir: Path) -> None:
    found = [path.name for path in data_dir.iterdir()] if data_dir.is_dir() else []
    if others := sorted(set(found) - {MODELS}):
        raise DataDirNotEmpty(
            f"{data_dir} holds {others[0]}: a backup is put into an empty directory only. Choose "
            "another with LORAPLEX_DATA_DIR.",
            field="data_dir",
            rule="empty",
        )


def _check_compatible(manifest: Manifest) -> None:
    if manifest.postgres_major != MAJOR_VERSION:
        raise BackupIncompatible(
            f"The backup was made with PostgreSQL {manifest.postgres_major}, this version brings "
            f"{MAJOR_VERSION}: restore it with Loraplex {manifest.loraplex_version}, then upgrade.",
            field="postgres_major",
            value=manifest.postgres_major,
        )
    if not knows_revision(manifest.revision):
        raise BackupIncompatible(
            f"The backup's schema is at {manifest.revision}, which this version does not know: "
            f"restore it with Loraplex {manifest.loraplex_version} or later.",
            field="revision",
            value=manifest.revision,
        )


def _secret_of(folder: Path, manifest: Manifest, secret_key_file: Path | None) -> str:
    """The text of the secret key that the backup belongs to; raises SecretKeyMissing."""
    own = folder / SECRETS / "secret_key"
    file = secret_key_file or (own if manifest.has_secrets else None)
    if file is None:
        raise SecretKeyMissing(
            "The backup was taken without secrets. Give the installation's secret_key with "
            "--secret-key-file: without it no key opens anything and no stored secret can be read.",
            field="secret_key_file",
            rule="the secret_key of the installation that was backed up",
        )
    text = file.read_text().strip()
    if not is_right_secret(SecretKeys([part.strip() for part in text.split(",")]), manifest):
        raise SecretKeyMissing(
            f"{file} is not the secret key of the installation that was backed up.",
            field="secret_key_file",
            rule="the secret_key of the installation that was backed up",
        )
    return text


def _clear(data_dir: Path) -> None:
    for path in data_dir.iterdir():
        if path.name != MODELS:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
