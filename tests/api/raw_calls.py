"""Calls in the raw, over sockets that a test may close; and what the database keeps of them."""

import asyncio
import http.client
import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from loraplex.platform.admission.models import Reservation
from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.models import Tenant as TenantRow
from tests.api.conftest import Tenant, in_system
from tests.api.running import RunningGateway

BASE = "smollm2-135m-instruct"
ENDLESS: dict[str, Any] = {"model": BASE, "prompt": "la ", "max_tokens": 4000}


class RawCall:
    """One request for a completion, on a connection of its own."""

    def __init__(
        self,
        gateway: RunningGateway,
        key: str,
        body: dict[str, Any],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
        sent = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        sent |= headers or {}
        self._connection.request("POST", "/v1/completions", json.dumps(body), sent)
        self._answer: http.client.HTTPResponse | None = None

    def answer(self) -> http.client.HTTPResponse:
        """Status and headers, once they are there."""
        self._answer = self._answer or self._connection.getresponse()
        return self._answer

    def json(self) -> Any:
        return json.loads(self.answer().read())

    def events(self) -> list[Any]:
        """The stream's events to its end."""
        lines = [line.decode().strip() for line in self.answer()]
        data = [line.removeprefix("data: ") for line in lines if line]
        return [one if one == "[DONE]" else json.loads(one) for one in data]

    def close(self) -> None:
        """Hang up."""
        if self._answer is not None:
            self._answer.close()
        self._connection.close()


async def _ledger(session: Any, tenant_name: str) -> list[LedgerEntry]:
    mine = select(LedgerEntry).join(TenantRow, TenantRow.id == LedgerEntry.tenant_id)
    rows = await session.scalars(
        mine.where(TenantRow.name == tenant_name).order_by(LedgerEntry.created_at)
    )
    return list(rows)


def ledger(settings: Settings, tenant: Tenant) -> list[LedgerEntry]:
    rows: list[LedgerEntry] = asyncio.run(
        in_system(settings, lambda session: _ledger(session, tenant.name))
    )
    return rows


def reservations(settings: Settings, tenant: Tenant) -> int:
    async def count(session: Any) -> int:
        mine = select(Reservation).join(TenantRow, TenantRow.id == Reservation.tenant_id)
        return len(list(await session.scalars(mine.where(TenantRow.name == tenant.name))))

    found: int = asyncio.run(in_system(settings, count))
    return found
