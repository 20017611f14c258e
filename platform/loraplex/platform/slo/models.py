"""Which class of service an operator has chosen for a tenant, or for one of its keys."""

from uuid import UUID, uuid4

from sqlalchemy import ForeignKey, ForeignKeyConstraint, Index
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base, Created


class SloChoice(Base, Created):
    """One choice; without a key it is for all of the tenant's."""

    __tablename__ = "slo_choices"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "api_key_id"],
            ["api_keys.tenant_id", "api_keys.id"],
            ondelete="CASCADE",
        ),
        Index(
            "slo_choices_subject_idx",
            "tenant_id",
            "api_key_id",
            unique=True,
            postgresql_nulls_not_distinct=True,
        ),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    api_key_id: Mapped[UUID | None]
    slo_class: Mapped[str]
