"""Workers as the control plane knows them: a row each, alive while its lease is."""

from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base, Created


class Worker(Base, Created):
    """A registered worker; `registration` is its WorkerRegistration message."""

    __tablename__ = "workers"

    worker_id: Mapped[str] = mapped_column(primary_key=True)
    incarnation: Mapped[str]
    pool: Mapped[str]
    role: Mapped[str]
    base_name: Mapped[str]
    registration: Mapped[dict[str, object]]
    lease_expires_at: Mapped[datetime]


class WantedAdapter(Base, Created):
    """An adapter wanted near workers of `base_name`; `place` 0 comes first."""

    __tablename__ = "wanted_adapters"

    base_name: Mapped[str] = mapped_column(primary_key=True)
    namespace: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    is_pinned: Mapped[bool]
    place: Mapped[int]
    reference: Mapped[dict[str, object]]
