"""The `adapter_pins` table."""

from uuid import UUID

from sqlalchemy import ForeignKeyConstraint
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base, Created


class AdapterPin(Base, Created):
    """A tenant wants this adapter kept in the pool: the version that its bare name means."""

    __tablename__ = "adapter_pins"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "adapter_id"],
            ["adapters.tenant_id", "adapters.id"],
            ondelete="CASCADE",
        ),
    )

    tenant_id: Mapped[UUID] = mapped_column(primary_key=True)
    adapter_id: Mapped[UUID] = mapped_column(primary_key=True)
