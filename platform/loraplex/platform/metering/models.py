"""The ledger: one immutable row a request, written when it ends."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, ForeignKeyConstraint, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base, Created


class LedgerEntry(Base, Created):
    """What one request used. (tenant, request) is unique, so settling twice changes nothing.

    The adapter is named by values, not by reference: the row outlives it.
    """

    __tablename__ = "ledger"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "api_key_id"], ["api_keys.tenant_id", "api_keys.id"]),
        Index(
            "ledger_adapter_id_idx",
            "adapter_id",
            "created_at",
            postgresql_where=text("adapter_id IS NOT NULL"),
        ),
        Index(
            "ledger_newest_idx",
            "admitted_at",
            postgresql_where=text("adapter_digest IS NOT NULL"),
        ),
    )

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    request_id: Mapped[str] = mapped_column(primary_key=True)
    api_key_id: Mapped[UUID]
    model: Mapped[str]
    adapter_digest: Mapped[str | None]
    adapter_id: Mapped[UUID | None]
    adapter_version: Mapped[int | None]
    prompt_tokens: Mapped[int]
    cached_tokens: Mapped[int]
    output_tokens: Mapped[int]
    outcome: Mapped[str]
    error_code: Mapped[str | None]
    admitted_at: Mapped[datetime]
