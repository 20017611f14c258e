"""Users, their identities, memberships and sessions; invitations; OIDC logins under way."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID, uuid4

from sqlalchemy import (
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base, Created


class Source(StrEnum):
    """Who decided that somebody has a role, and may take it back."""

    INVITATION = "invitation"
    OPERATOR = "operator"
    IDENTITY_PROVIDER = "identity_provider"


class SignInMethod(StrEnum):
    PASSWORD = "password"  # noqa: S105 - a method's name
    IDENTITY_PROVIDER = "identity_provider"


class User(Base, Created):
    """A person, whatever tenants they work for; `email` is lower case."""

    __tablename__ = "users"

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    email: Mapped[str] = mapped_column(unique=True)
    display_name: Mapped[str]
    password_hash: Mapped[str | None]
    password_changed_at: Mapped[datetime | None]
    operator_role: Mapped[str | None]
    operator_role_source: Mapped[str | None]
    disabled_at: Mapped[datetime | None]
    last_signed_in_at: Mapped[datetime | None]


class UserIdentity(Base, Created):
    """Whom an identity provider means by a subject."""

    __tablename__ = "user_identities"
    __table_args__ = (Index("user_identities_user_id_idx", "user_id"),)

    issuer: Mapped[str] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[UUID] = mapped_column(ForeignKey("users.id"))


class Membership(Base, Created):
    """A person's role in a tenant. An ended one stays: the ledger and keys refer to it."""

    __tablename__ = "memberships"
    __table_args__ = (
        UniqueConstraint("tenant_id", "id"),
        Index(
            "memberships_live_idx",
            "tenant_id",
            "user_id",
            unique=True,
            postgresql_where=text("ended_at IS NULL"),
        ),
        Index("memberships_user_id_idx", "user_id"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"))
    user_id: Mapped[UUID | None] = mapped_column(ForeignKey("users.id"))
    role: Mapped[str]
    source: Mapped[str]
    ended_at: Mapped[datetime | None]


class Invitation(Base, Created):
    """A link that works once: to a tenant's role, to an operator's, or, with neither, to a new
    password. Its token is kept as a keyed hash."""

    __tablename__ = "invitations"
    __table_args__ = (UniqueConstraint("tenant_id", "id"),)

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID | None] = mapped_column(ForeignKey("tenants.id"))
    email: Mapped[str]
    role: Mapped[str | None]
    operator_role: Mapped[str | None]
    token_hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    invited_by: Mapped[str]
    expires_at: Mapped[datetime]
    accepted_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class PersonSession(Base, Created):
    """A person's signed-in browser, in one tenant or, with none, among the operators."""

    __tablename__ = "person_sessions"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "membership_id"], ["memberships.tenant_id", "memberships.id"]
        ),
        Index("person_sessions_user_id_idx", "user_id"),
    )

    token_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    id: Mapped[UUID] = mapped_column(unique=True, default=uuid4)
    user_id: Mapped[UUID] = mapped_column(ForeignKey("users.id"))
    tenant_id: Mapped[UUID | None]
    membership_id: Mapped[UUID | None]
    method: Mapped[str]
    address: Mapped[str]
    user_agent: Mapped[str]
    expires_at: Mapped[datetime]


class OidcLogin(Base, Created):
    """A login that went to the identity provider and has not come back."""

    __tablename__ = "oidc_logins"

    state_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    sealed: Mapped[bytes]
    expires_at: Mapped[datetime]
