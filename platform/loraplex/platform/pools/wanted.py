"""What the workers of a base are to keep near: pinned adapters, and those expected soon."""

import hashlib
from collections.abc import Sequence

import msgspec
from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.workers import WantedAdapters
from loraplex.platform.pools.models import WantedAdapter, Worker


async def replace_wanted(
    session: AsyncSession,
    base_name: str,
    pinned: Sequence[AdapterRef],
    expected: Sequence[AdapterRef],
) -> None:
    """Make these the adapters wanted for a base, and no others. Needs role `system`."""
    await session.execute(delete(WantedAdapter).where(WantedAdapter.base_name == base_name))
    known: set[tuple[str, str]] = set()
    for is_pinned, refs in ((True, pinned), (False, expected)):
        for ref in refs:
            key = ref.namespace, ref.spec.digest
            if key in known:
                continue
            known.add(key)
            await session.execute(
                insert(WantedAdapter).values(
                    base_name=base_name,
                    namespace=ref.namespace,
                    digest=ref.spec.digest,
                    is_pinned=is_pinned,
                    place=len(known),
                    reference=msgspec.to_builtins(ref),
                )
            )


async def wanted_for(
    session: AsyncSession, worker_id: str, known_revision: str | None
) -> WantedAdapters | None:
    """What a worker is to keep near; None where that is what it knows already."""
    of_its_base = WantedAdapter.base_name == (
        select(Worker.base_name).where(Worker.worker_id == worker_id).scalar_subquery()
    )
    keys = (
        await session.execute(
            select(WantedAdapter.namespace, WantedAdapter.digest, WantedAdapter.is_pinned)
            .where(of_its_base)
            .order_by(WantedAdapter.place)
        )
    ).all()
    revision = hashlib.sha256(repr([tuple(key) for key in keys]).encode()).hexdigest()
    if revision == known_revision or (not keys and known_revision is None):
        return None
    rows = await session.execute(
        select(WantedAdapter.is_pinned, WantedAdapter.reference)
        .where(of_its_base)
        .order_by(WantedAdapter.place)
    )
    refs = [(is_pinned, msgspec.convert(value, AdapterRef)) for is_pinned, value in rows]
    return WantedAdapters(
        revision=revision,
        pinned=[ref for is_pinned, ref in refs if is_pinned],
        expected=[ref for is_pinned, ref in refs if not is_pinned],
    )
