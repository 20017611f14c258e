"""The table of public prefixes; who may change it is in its migration."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import func
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base


class PublicPrefix(Base):
    """A system message's text that tenants may know they share."""

    __tablename__ = "public_prefixes"

    id: Mapped[UUID] = mapped_column(primary_key=True, server_default=func.gen_random_uuid())
    name: Mapped[str] = mapped_column(unique=True)
    text: Mapped[str]
    declared_by: Mapped[str]
    declared_at: Mapped[datetime] = mapped_column(server_default=func.now())
