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
