"""The base models that are registered, for operators: on role `system`."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.versions.models import Adapter, BaseModel
from loraplex.engine.protocol.identity import Digest
from loraplex.platform.database.pages import Keyset, Page, PageRequest

BY_NAME = Keyset("base_models", BaseModel.name)


@dataclass(frozen=True, slots=True)
class RegisteredBase:
    """A base model, and how many adapters of all tenants are made for it."""

    name: str
    digest: Digest
    registered_at: datetime
    adapters: int


async def page_of_bases(session: AsyncSession, wanted: PageRequest) -> Page[RegisteredBase]:
    """Every base model that any worker has served, by name; raises InvalidCursor."""
    mine = Adapter.base_model_id == BaseModel.id
    adapters = select(func.count()).where(mine, Adapter.deleted_at.is_(None)).scalar_subquery()
    page = await BY_NAME.page(session, select(BaseModel, adapters), wanted)
    return page.map(
        lambda row: RegisteredBase(row[0].name, Digest(row[0].digest), row[0].created_at, row[1])
    )
