"""The declarative base all tables share, with constraint names that migrations can refer to."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import DateTime, MetaData, Uuid, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAMING = {
    "pk": "%(table_name)s_pkey",
    "uq": "%(table_name)s_%(column_0_N_name)s_key",
    "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
    "ix": "%(table_name)s_%(column_0_N_name)s_idx",
    "ck": "%(table_name)s_%(constraint_name)s_check",
}


class Base(DeclarativeBase):
    """Relations load nothing by themselves: a forgotten join fails instead of querying per row."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {
        datetime: DateTime(timezone=True),
        UUID: Uuid(),
        dict[str, object]: JSONB(),
        list[dict[str, object]]: JSONB(),
    }


class Created:
    """A row that knows when it was written."""

    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
