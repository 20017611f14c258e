"""What a tenant stores, what is reserved of its quota, and uploads that take several requests."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, ForeignKey, ForeignKeyConstraint, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from loraplex.platform.database.base import Base, Created


class UploadStatus(StrEnum):
    PENDING = "pending"
    """Parts may be sent."""
    COMPLETING = "completing"
    """All parts are there; a job reads, checks and registers them."""
    COMPLETED = "completed"
    ABORTED = "aborted"
    EXPIRED = "expired"
    FAILED = "failed"


OPEN = (UploadStatus.PENDING, UploadStatus.COMPLETING)


class Blob(Base, Created):
    """Bytes that a tenant stores, once however many versions they belong to.

    `created_at` is when they last came in. Whoever deletes a blob locks its row first, looks for
    references after that, and keeps the lock until the object is gone as well: an upload of the
    same bytes waits, and puts them again.
    """

    __tablename__ = "blobs"
    __table_args__ = (Index("blobs_created_at_idx", "created_at"),)

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    size_bytes: Mapped[int] = mapped_column(BigInteger)


class StorageReservation(Base, Created):
    """Bytes on their way in, which count against the quota as stored ones do.

    One without `expires_at` is ended by whoever made it, whose own row has a deadline.
    """

    __tablename__ = "storage_reservations"
    __table_args__ = (Index(None, "expires_at"),)

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    expires_at: Mapped[datetime | None]


class Upload(Base, Created):
    """A resumable upload. Its reservation has its id. `error` says why it failed.

    While it completes, `claimed_at` says that a job is at it; `deadline_at`, `attempts` and
    `last_error` serve the sweeper. `cleared_at` says that nothing of it is left in the store's
    staging area.
    """

    __tablename__ = "uploads"
    __table_args__ = (
        UniqueConstraint("tenant_id", "id"),
        Index(
            "uploads_uncleared_idx",
            "tenant_id",
            "created_at",
            postgresql_where=text("cleared_at IS NULL"),
        ),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id"))
    adapter_name: Mapped[str]
    base_name: Mapped[str]
    status: Mapped[str] = mapped_column(default=UploadStatus.PENDING)
    expires_at: Mapped[datetime]
    deadline_at: Mapped[datetime | None]
    claimed_at: Mapped[datetime | None]
    attempts: Mapped[int] = mapped_column(default=0)
    last_error: Mapped[str | None]
    error: Mapped[dict[str, object] | None]
    version: Mapped[int | None]
    ended_at: Mapped[datetime | None]
    cleared_at: Mapped[datetime | None]


class UploadFile(Base):
    """A file of an upload: what the client says of it, and its multipart upload at the store."""

    __tablename__ = "upload_files"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "upload_id"], ["uploads.tenant_id", "uploads.id"], ondelete="CASCADE"
        ),
    )

    tenant_id: Mapped[UUID] = mapped_column(primary_key=True)
    upload_id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    part_bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str | None]
    store_upload_id: Mapped[str | None]


class UploadPart(Base):
    """A part that came through a gateway; what clients send to the store, only the store knows."""

    __tablename__ = "upload_parts"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "upload_id", "file_name"],
            ["upload_files.tenant_id", "upload_files.upload_id", "upload_files.name"],
            ondelete="CASCADE",
        ),
    )

    tenant_id: Mapped[UUID] = mapped_column(primary_key=True)
    upload_id: Mapped[UUID] = mapped_column(primary_key=True)
    file_name: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
