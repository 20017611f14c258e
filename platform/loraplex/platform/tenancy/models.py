"""Tenants, their API keys and web sessions; operators' keys."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID, uuid4

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    ForeignKeyConstraint,
    LargeBinary,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base, Created


class TenantState(StrEnum):
    ACTIVE = "active"
    SUSPENDED = "suspended"


class Tenant(Base, Created):
    """A customer. `namespace` is the opaque string under which its bytes and KV are cached."""

    __tablename__ = "tenants"

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    name: Mapped[str] = mapped_column(unique=True)
    namespace: Mapped[str] = mapped_column(unique=True)
    state: Mapped[str] = mapped_column(default=TenantState.ACTIVE)
    max_concurrent_requests: Mapped[int] = mapped_column(default=64)
    max_pinned_adapters: Mapped[int] = mapped_column(default=4)
    max_storage_bytes: Mapped[int] = mapped_column(BigInteger, default=50 * 1024**3)
    max_open_uploads: Mapped[int] = mapped_column(default=16)


class ApiKey(Base, Created):
    """A tenant's key, kept as a keyed hash; `label` is what may be shown of it."""

    __tablename__ = "api_keys"
    __table_args__ = (UniqueConstraint("tenant_id", "id"),)

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"))
    name: Mapped[str]
    label: Mapped[str]
    key_hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class OperatorKey(Base, Created):
    """A key of the platform's own staff; belongs to no tenant."""

    __tablename__ = "operator_keys"

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    name: Mapped[str]
    label: Mapped[str]
    key_hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


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
