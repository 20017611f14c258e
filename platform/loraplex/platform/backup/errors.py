"""Why a backup cannot be taken or put back; every message says what to do."""

from loraplex.engine.protocol.errors import DomainError, Kind


class NotEmbedded(DomainError):
    """The database or the object store is not one of ours."""

    kind, code = Kind.INVALID, "not_embedded"


class BackupTargetExists(DomainError):
    """Something lies already where the backup should go."""

    kind, code = Kind.CONFLICT, "backup_target_exists"


class BackupIncomplete(DomainError):
    """A program of PostgreSQL's failed, or bytes that the database refers to are missing."""

    kind, code = Kind.OVERLOADED, "backup_incomplete"


class BackupDamaged(DomainError):
    """The backup is not whole, or not what its manifest says."""

    kind, code = Kind.INVALID, "backup_damaged"


class BackupIncompatible(DomainError):
    """Another version of PostgreSQL or of Loraplex made the backup, and this one cannot read it."""

    kind, code = Kind.CONFLICT, "backup_incompatible"


class DataDirNotEmpty(DomainError):
    """A backup is put back into an empty data directory only."""

    kind, code = Kind.CONFLICT, "data_dir_not_empty"


class SecretKeyMissing(DomainError):
    """The backup was taken without secrets, and the key given is none or another."""

    kind, code = Kind.INVALID, "secret_key_missing"
