"""Whether a version can be called, as a condition for Postgres and in words for its owner."""

from sqlalchemy import ColumnElement, and_

from loraplex.adapters_registry.versions.models import AdapterVersion, BaseModel, VersionStatus


def is_callable(version: type[AdapterVersion], base: type[BaseModel]) -> ColumnElement[bool]:
    """Whether a version of a live adapter may be called: ready, and for the base as it is now."""
    return and_(
        version.status == VersionStatus.READY,
        version.base_digest == base.digest,
        version.deleted_at.is_(None),
        version.quarantined_at.is_(None),
    )


def obstacle(version: AdapterVersion, base: BaseModel) -> str | None:
    """What follows "it"; None when nothing stands in the way."""
    if version.deleted_at is not None:
        return "was deleted"
    if version.quarantined_at is not None:
        return f"is quarantined: {version.quarantine_reason}"
    match VersionStatus(version.status):
        case VersionStatus.REJECTED:
            return "was rejected; its reasons say why"
        case VersionStatus.UPLOADED | VersionStatus.VALIDATING:
            return "is still being checked; try again in a moment"
        case VersionStatus.READY:
            pass
    if version.base_digest != base.digest:
        return "was made for another base model; upload it again"
    return None
