"""One key of a tenant, the request it came with, and that request's answer."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, LargeBinary
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base, Created


class IdempotencyKey(Base, Created):
    """Under way until it has a `status_code`. Whoever wrote `claim` may store the answer.

    `fingerprint` is a keyed hash of the request, `sealed_body` the answer's body, encrypted: both
    may stem from secrets.
    """

    __tablename__ = "idempotency_keys"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    fingerprint: Mapped[bytes] = mapped_column(LargeBinary)
    claim: Mapped[UUID]
    locked_until: Mapped[datetime]
    """When whoever works on it is taken for dead."""
    status_code: Mapped[int | None]
    headers: Mapped[dict[str, object] | None]
    sealed_body: Mapped[bytes | None] = mapped_column(LargeBinary)
    expires_at: Mapped[datetime] = mapped_column(index=True)
