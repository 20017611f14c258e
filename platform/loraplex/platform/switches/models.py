"""The table of kill switches; who may turn them is in its migration."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import func
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base


class Switch(Base):
    """One switch, and what was last done with it."""

    __tablename__ = "switches"

    id: Mapped[UUID] = mapped_column(primary_key=True, server_default=func.gen_random_uuid())
    name: Mapped[str] = mapped_column(unique=True)
    is_on: Mapped[bool]
    reason: Mapped[str]
    changed_by: Mapped[str]
    changed_at: Mapped[datetime] = mapped_column(server_default=func.now())
