"""Aliases, the history of their moves, and rollouts."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, ForeignKeyConstraint, Index, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base, Created

ADAPTER = ["adapters.tenant_id", "adapters.id"]
ALIAS = ["aliases.tenant_id", "aliases.adapter_id", "aliases.name"]
VERSION = [
    "adapter_versions.tenant_id",
    "adapter_versions.adapter_id",
    "adapter_versions.number",
]


class MoveKind(StrEnum):
    SET = "set"
    REMOVED = "removed"
    ROLLED_BACK = "rolled_back"
    PROMOTED = "promoted"


class RolloutStatus(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    """Nothing goes to the candidate until the rollout is resumed."""
    PROMOTED = "promoted"
    ROLLED_BACK = "rolled_back"


class Alias(Base):
    """A name of the tenant's for one of an adapter's versions; `version` is None once removed."""

    __tablename__ = "aliases"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "adapter_id"], ADAPTER),
        ForeignKeyConstraint(["tenant_id", "adapter_id", "version"], VERSION),
    )

    tenant_id: Mapped[UUID] = mapped_column(primary_key=True)
    adapter_id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[int | None]
    generation: Mapped[int] = mapped_column(BigInteger)
    moved_at: Mapped[datetime] = mapped_column(server_default=func.now())


class AliasMove(Base, Created):
    """One move of an alias, never changed. The versions may be purged since."""

    __tablename__ = "alias_moves"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "adapter_id", "alias"], ALIAS),
        ForeignKeyConstraint(["tenant_id", "api_key_id"], ["api_keys.tenant_id", "api_keys.id"]),
    )

    tenant_id: Mapped[UUID] = mapped_column(primary_key=True)
    adapter_id: Mapped[UUID] = mapped_column(primary_key=True)
    alias: Mapped[str] = mapped_column(primary_key=True)
    generation: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    kind: Mapped[str]
    from_version: Mapped[int | None]
    to_version: Mapped[int | None]
    api_key_id: Mapped[UUID]


class Rollout(Base, Created):
    """A split of an alias between the version it points at and a candidate.

    `weight` of 100 conversations go to the candidate while the rollout is running. More than
    `error_rate_limit` percent of errors among at least `minimum_requests` of the candidate's
    requests, settled within `window_seconds` and since `running_since`, roll it back.
    """

    __tablename__ = "rollouts"
    __table_args__ = (
        UniqueConstraint("tenant_id", "id"),
        ForeignKeyConstraint(["tenant_id", "adapter_id", "alias"], ALIAS),
        Index(
            "rollouts_open_idx",
            "tenant_id",
            "adapter_id",
            "alias",
            unique=True,
            postgresql_where=text("ended_at IS NULL"),
        ),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID]
    adapter_id: Mapped[UUID]
    alias: Mapped[str]
    stable_version: Mapped[int]
    candidate_version: Mapped[int]
    weight: Mapped[int]
    status: Mapped[str] = mapped_column(default=RolloutStatus.RUNNING)
    error_rate_limit: Mapped[int]
    window_seconds: Mapped[int]
    minimum_requests: Mapped[int]
    observed_requests: Mapped[int] = mapped_column(default=0)
    observed_errors: Mapped[int] = mapped_column(default=0)
    running_since: Mapped[datetime] = mapped_column(server_default=func.now())
    ended_at: Mapped[datetime | None]
    end_reason: Mapped[str | None]
