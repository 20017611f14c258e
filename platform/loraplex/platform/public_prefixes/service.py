"""Operators declare and withdraw public prefixes, on role `system`. Commits nothing."""

import re
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor, Target
from loraplex.platform.audit.service import record
from loraplex.platform.database.pages import Keyset, Page, PageRequest
from loraplex.platform.public_prefixes.errors import (
    InvalidPublicPrefix,
    PublicPrefixNotFound,
    TooManyPublicPrefixes,
)
from loraplex.platform.public_prefixes.models import PublicPrefix

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
MAX_PREFIXES = 200
MAX_TEXT_BYTES = 256 * 1024
BY_NAME = Keyset("public_prefixes", PublicPrefix.name)


def check_declaration(name: str, text: str) -> None:
    """Raise InvalidPublicPrefix for a name or a text that cannot be one."""
    if not NAME.fullmatch(name):
        raise InvalidPublicPrefix(
            f"cannot be called {name[:64]!r}: a name is up to 63 lower-case letters, digits, dots, "
            "dashes and underscores, and begins with a letter or digit",
            field="name",
            rule=NAME.pattern,
            value=name[:64],
        )
    if "\0" in text:
        raise InvalidPublicPrefix(
            "has a NUL character", field="text", rule="no NUL character", value=text.index("\0")
        )
    size_bytes = len(text.encode())
    if not 0 < size_bytes <= MAX_TEXT_BYTES:
        raise InvalidPublicPrefix(
            f"has {size_bytes} bytes; it may have 1 to {MAX_TEXT_BYTES}",
            field="text",
            rule=f"1 to {MAX_TEXT_BYTES} bytes",
            value=size_bytes,
        )


async def declare(session: AsyncSession, actor: Actor, name: str, text: str) -> PublicPrefix:
    """Make a text public, in place of what had the name; in force within five seconds.

    Raises InvalidPublicPrefix, TooManyPublicPrefixes.
    """
    check_declaration(name, text)
    # Two who declare the last one at once would both see room.
    await session.execute(select(func.pg_advisory_xact_lock(func.hashtext("public_prefixes"))))
    before = await session.scalar(select(PublicPrefix).where(PublicPrefix.name == name))
    told = None if before is None else _told(before.text)
    if before is None:
        declared = await session.scalar(select(func.count()).select_from(PublicPrefix))
        if (declared or 0) >= MAX_PREFIXES:
            raise TooManyPublicPrefixes(MAX_PREFIXES)
    values = {"text": text, "declared_by": actor.label}
    statement = (
        insert(PublicPrefix)
        .values(name=name, **values)
        .on_conflict_do_update(
            index_elements=[PublicPrefix.name], set_=values | {"declared_at": func.now()}
        )
        .returning(PublicPrefix)
    )
    row = (await session.scalars(statement, execution_options={"populate_existing": True})).one()
    await record(
        session,
        actor,
        "public_prefix.declared",
        tenant_id=None,
        target=Target("public_prefix", row.id, name),
        before=told,
        after=_told(text),
    )
    return row


async def withdraw(session: AsyncSession, actor: Actor, name: str) -> None:
    """Make a text private again; what is kept of it is found by nobody any more.

    Raises PublicPrefixNotFound.
    """
    row = await find(session, name)
    await session.execute(delete(PublicPrefix).where(PublicPrefix.id == row.id))
    await record(
        session,
        actor,
        "public_prefix.withdrawn",
        tenant_id=None,
        target=Target("public_prefix", row.id, name),
        before=_told(row.text),
    )


async def find(session: AsyncSession, name: str) -> PublicPrefix:
    """Raises PublicPrefixNotFound."""
    row = await session.scalar(select(PublicPrefix).where(PublicPrefix.name == name))
    if row is None:
        raise PublicPrefixNotFound(name)
    return row


async def page_of_prefixes(session: AsyncSession, wanted: PageRequest) -> Page[PublicPrefix]:
    """Every public prefix, by name; raises InvalidCursor."""
    page = await BY_NAME.page(session, select(PublicPrefix), wanted)
    return page.map(lambda row: row[0])


async def declared_when(session: AsyncSession) -> Mapping[str, datetime]:
    """When each text was declared, by name: what tells whether any has changed. On any role."""
    rows = await session.execute(select(PublicPrefix.name, PublicPrefix.declared_at))
    return dict(rows.all())


async def declared_texts(session: AsyncSession) -> Mapping[str, str]:
    """All texts by name, on any role."""
    rows = await session.execute(select(PublicPrefix.name, PublicPrefix.text))
    return dict(rows.all())


def _told(text: str) -> dict[str, object]:
    data = text.encode()
    return {"bytes": len(data), "sha256": sha256(data).hexdigest()}
