"""What role `app` sees of members: a view of Postgres, which joins them with their users."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import DateTime, MetaData, Uuid
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class ViewBase(DeclarativeBase):
    """Views are no tables: migrations make them, and nothing compares them with classes."""

    metadata = MetaData(schema="gateway")
    type_annotation_map = {datetime: DateTime(timezone=True), UUID: Uuid()}


class Member(ViewBase):
    """A person who is a member now of the tenant of the unit of work."""

    __tablename__ = "members"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    tenant_id: Mapped[UUID]
    user_id: Mapped[UUID]
    email: Mapped[str]
    display_name: Mapped[str]
    role: Mapped[str]
    source: Mapped[str]
    created_at: Mapped[datetime]
    disabled_at: Mapped[datetime | None]
    last_signed_in_at: Mapped[datetime | None]
