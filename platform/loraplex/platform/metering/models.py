"""The ledger: one immutable row a request, written when it ends."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, ForeignKeyConstraint
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base, Created


class LedgerEntry(Base, Created):
    """What one request used. (tenant, request) is unique, so settling twice changes nothing."""

    __tablename__ = "ledger"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "api_key_id"], ["api_keys.tenant_id", "api_keys.id"]),
    )

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    request_id: Mapped[str] = mapped_column(primary_key=True)
    api_key_id: Mapped[UUID]
    model: Mapped[str]
    adapter_digest: Mapped[str | None]
    prompt_tokens: Mapped[int]
    cached_tokens: Mapped[int]
    output_tokens: Mapped[int]
    outcome: Mapped[str]
    admitted_at: Mapped[datetime]
