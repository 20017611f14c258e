"""Units of work: one short transaction each, which sees one tenant's rows or none.

The tenant is set inside the transaction that it is for. A setting made before would vanish at the
commit, or stay on the pooled connection for its next borrower.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import Connection, bindparam, event, func, select, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, SessionTransaction

from loraplex.platform.database.liveness import KEEPALIVES, replace_dead_connections
from loraplex.platform.database.statements import Statements
from loraplex.platform.database.urls import sqlalchemy_url
from loraplex.platform.tenancy.identity import TenantId

TENANT_SETTING = "loraplex.tenant_id"
CONNECT_SECONDS = 10
SET_TENANT = select(func.set_config(TENANT_SETTING, bindparam("tenant"), True))


class TenantSession(Session):
    """A session whose `info["tenant_id"]` row-level security obeys."""


@event.listens_for(TenantSession, "after_begin")
def set_tenant(session: Session, _: SessionTransaction, connection: Connection) -> None:
    """Tell the transaction that has just begun whose rows it may see."""
    tenant_id = session.info.get("tenant_id")
    if tenant_id is not None:
        connection.execute(SET_TENANT, {"tenant": str(tenant_id)})


class Database:
    """One role's connections to Postgres. Belongs to the event loop that first uses it."""

    def __init__(self, url: str, *, pool_size: int = 5) -> None:
        """`url` is any Postgres URL. Nothing connects before the first unit of work.

        At a peak it opens up to twice `pool_size` connections. They stay, the last one used first:
        to open one costs as much as ten units of work, just when there is no time for it.
        """
        self.engine = create_async_engine(
            sqlalchemy_url(url),
            pool_size=2 * pool_size,
            max_overflow=0,
            pool_use_lifo=True,
            pool_timeout=CONNECT_SECONDS,
            hide_parameters=True,  # an error's text is logged, and may reach a person
            connect_args={"connect_timeout": CONNECT_SECONDS, **KEEPALIVES},
        )
        replace_dead_connections(self.engine.sync_engine)
        self.statements = Statements(url)
        self._sessions = async_sessionmaker(
            self.engine, sync_session_class=TenantSession, expire_on_commit=False
        )

    @asynccontextmanager
    async def unit_of_work(self, tenant_id: TenantId | None = None) -> AsyncIterator[AsyncSession]:
        """One transaction: committed on leaving, rolled back on any exception.

        Without a tenant, role `app` sees no tenant's rows at all; `system` sees everybody's
        either way.
        """
        async with self._sessions(info={"tenant_id": tenant_id}) as session, session.begin():
            yield session

    async def ping(self) -> None:
        """Ask Postgres for an answer; raises what SQLAlchemy raises when there is none."""
        async with self.engine.connect() as connection:
            await connection.execute(text("SELECT 1"))

    async def dispose(self) -> None:
        """Close every pooled connection."""
        await self.engine.dispose()
        await self.statements.close()
