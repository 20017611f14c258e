"""What a backup holds, file by file with checksums, and the proof of which secret it belongs to."""

import hashlib
import json
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from loraplex.platform.backup.errors import BackupDamaged
from loraplex.platform.secrets import SecretKeys

MANIFEST = "manifest.json"
DUMP = "database.dump"
OBJECTS = "objects"
SECRETS = "secrets"
FORMAT = 1
PROOF_PURPOSE = "backup"
CHUNK_BYTES = 1024 * 1024

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class BackedUpFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    size_bytes: int
    sha256: Sha256


class Manifest(BaseModel):
    """Written last: a folder without one is no backup."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int
    id: str
    loraplex_version: str
    postgres_major: str
    revision: str
    created_at: str
    has_secrets: bool
    secret_proof: str
    """A MAC of `id` under the installation's secret key: tells the right key from another."""
    files: dict[str, BackedUpFile]
    """By path within the backup, with `/`."""

    def write(self, folder: Path) -> None:
        (folder / MANIFEST).write_text(self.model_dump_json(indent=2) + "\n")

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files.values())


def proof(secrets: SecretKeys, backup_id: str) -> str:
    return secrets.mac(PROOF_PURPOSE, backup_id.encode()).hex()


def is_right_secret(secrets: SecretKeys, manifest: Manifest) -> bool:
    """Whether one of the keys is the one that the backup's installation signed with."""
    macs = secrets.macs(PROOF_PURPOSE, manifest.id.encode())
    return manifest.secret_proof in {mac.hex() for mac in macs}


def read_verified(folder: Path) -> Manifest:
    """The manifest of a backup, every file of which is there and is what it says.

    Raises BackupDamaged.
    """
    try:
        manifest = Manifest.model_validate(json.loads((folder / MANIFEST).read_text("utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        raise BackupDamaged(f"{folder} is no backup: its {MANIFEST} cannot be read.") from error
    if manifest.format != FORMAT:
        raise BackupDamaged(
            f"The backup has format {manifest.format}, this version reads {FORMAT}.",
            field="format",
            value=manifest.format,
        )
    found = set(files_of(folder))
    if missing := sorted(set(manifest.files) - found):
        raise BackupDamaged(f"The backup lacks {missing[0]}, and {len(missing) - 1} files more.")
    if unknown := sorted(found - set(manifest.files)):
        raise BackupDamaged(f"The backup has {unknown[0]}, which its {MANIFEST} does not know.")
    for name, expected in manifest.files.items():
        if described(folder / name) != expected:
            raise BackupDamaged(f"{name} in the backup is not what was backed up.", field=name)
    return manifest


def files_of(folder: Path) -> list[str]:
    """Every file of a backup but its manifest, by its path within; links are none."""
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and path != folder / MANIFEST
    )


def described(path: Path) -> BackedUpFile:
    hasher, size_bytes = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            hasher.update(chunk)
            size_bytes += len(chunk)
    return BackedUpFile(size_bytes=size_bytes, sha256=hasher.hexdigest())
