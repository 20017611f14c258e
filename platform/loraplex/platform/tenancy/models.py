"""Tenants, their API keys and web sessions; operators' keys."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID, uuid4

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    String,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base, Created
from loraplex.platform.people.models import Membership, User
from loraplex.platform.tenancy.scopes import OperatorRole, Role


class TenantState(StrEnum):
    ACTIVE = "active"
    SUSPENDED = "suspended"
    DELETING = "deleting"
    DELETED = "deleted"
    """Nothing is left of it but a ledger without names."""


class Tenant(Base, Created):
    """A customer. `namespace` is the opaque string under which its bytes and KV are cached."""

    __tablename__ = "tenants"

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    name: Mapped[str] = mapped_column(unique=True)
    namespace: Mapped[str] = mapped_column(unique=True)
    state: Mapped[str] = mapped_column(default=TenantState.ACTIVE)
    display_name: Mapped[str] = mapped_column(server_default="")
    state_reason: Mapped[str | None]
    """Why it was suspended, as told to operators and in refusals."""
    state_changed_at: Mapped[datetime | None]
    max_concurrent_requests: Mapped[int] = mapped_column(default=64)
    max_pinned_adapters: Mapped[int] = mapped_column(default=4)
    max_storage_bytes: Mapped[int] = mapped_column(BigInteger, default=50 * 1024**3)
    max_open_uploads: Mapped[int] = mapped_column(default=16)


class StoredKey(Created):
    """What keys of both kinds have. Of the text there is a keyed hash, and `label` to show.

    Gateways may write the hash and never read it, so it is loaded only where it is asked for.
    """

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    name: Mapped[str]
    label: Mapped[str]
    key_hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True, deferred=True)
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    disabled_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    replaced_by_id: Mapped[UUID | None]
    """The key that a rotation made; this one ends soon, or has."""


class ApiKey(Base, StoredKey):
    """A tenant's key."""

    __tablename__ = "api_keys"
    __table_args__ = (
        UniqueConstraint("tenant_id", "id"),
        ForeignKeyConstraint(["tenant_id", "member_id"], [Membership.tenant_id, Membership.id]),
        ForeignKeyConstraint(
            ["tenant_id", "replaced_by_id"], ["api_keys.tenant_id", "api_keys.id"]
        ),
        Index(
            "api_keys_member_idx",
            "tenant_id",
            "member_id",
            postgresql_where=text("member_id IS NOT NULL"),
        ),
        Index("api_keys_oldest_idx", "tenant_id", "created_at", "id"),
    )

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"))
    member_id: Mapped[UUID | None]
    """Whose it is: it may no more than the member's role, and ends with the membership."""
    role: Mapped[str] = mapped_column(server_default=Role.OWNER.value)
    """What bounds the scopes of a key without a member."""
    scopes: Mapped[list[str] | None] = mapped_column(ARRAY(String))
    """None: all of the role's, those of later releases too."""
    models: Mapped[list[str] | None] = mapped_column(ARRAY(String))
    """Bases and adapters it may call, by bare name; None is every one."""


class OperatorKey(Base, StoredKey):
    """A key of the platform's own staff; belongs to no tenant."""

    __tablename__ = "operator_keys"
    __table_args__ = (ForeignKeyConstraint(["replaced_by_id"], ["operator_keys.id"]),)

    user_id: Mapped[UUID | None] = mapped_column(ForeignKey(User.id))
    """Whose it is: it may no more than that operator, and ends when they are none any more."""
    role: Mapped[str] = mapped_column(server_default=OperatorRole.ADMIN.value)


class WebSession(Base, Created):
    """A signed-in browser of a tenant; lives no longer than the key it was opened with."""

    __tablename__ = "web_sessions"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "api_key_id"], ["api_keys.tenant_id", "api_keys.id"]),
    )

    token_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    tenant_id: Mapped[UUID]
    api_key_id: Mapped[UUID]
    expires_at: Mapped[datetime]


class OperatorSession(Base, Created):
    """A signed-in browser of an operator."""

    __tablename__ = "operator_sessions"

    token_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    operator_key_id: Mapped[UUID] = mapped_column(ForeignKey("operator_keys.id"))
    expires_at: Mapped[datetime]


class AuthFailure(Base):
    """Failed credentials of one client address in one window, shared by all gateways."""

    __tablename__ = "auth_failures"

    address: Mapped[str] = mapped_column(primary_key=True)
    window_start: Mapped[datetime] = mapped_column(primary_key=True)
    failures: Mapped[int]
