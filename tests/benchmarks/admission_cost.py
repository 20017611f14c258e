"""What admission costs, on an embedded Postgres that waits for its disk.

Prints one JSON line for each case: one hot tenant without limits of its own, and one with every
rate and both budgets on the tenant, the model, a member and the key.

- `sustained`: as many requests as the service takes, from 16 at once, each admitted and settled.
- `paced`: 50 requests a second, as a gateway that has time; what admission adds to a request.

Milliseconds. `LORAPLEX_…` settings do not matter: the server is the benchmark's own.

    python tests/benchmarks/admission_cost.py
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

from loraplex.platform.admission.models import Subject
from loraplex.platform.admission.service import Admission
from loraplex.platform.database.sessions import Database
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.embedded.postgres import Postgres
from loraplex.platform.embedded.processes import running
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.conftest import role_urls
from tests.platform.admission.conftest import (
    MICRO_PER_TOKEN,
    MODEL,
    demand,
    new_principal,
    set_limits,
    usage,
)

AT_ONCE: Final = 16
REQUESTS_PER_SECOND: Final = 50
AMPLE: Final = 10**12
EVERY_LIMIT: Final = {
    "requests_per_minute": AMPLE,
    "tokens_per_minute": AMPLE,
    "prompt_tokens_per_minute": AMPLE,
    "output_tokens_per_minute": AMPLE,
    "max_concurrent_requests": 10_000,
    "daily_budget_micros": AMPLE,
    "monthly_budget_micros": AMPLE,
}


@dataclass
class Times:
    """How long each admission and each settlement of a case took, in milliseconds."""

    admit: list[float]
    settle: list[float]

    def summary(self) -> dict[str, float]:
        return {
            f"{name}_{label}_ms": round(value, 2)
            for name, times in (("admit", self.admit), ("settle", self.settle))
            for label, value in (
                ("p50", statistics.median(times)),
                ("p99", statistics.quantiles(times, n=100)[98]),
            )
        }


async def one_request(admission: Admission, principal: TenantPrincipal, times: Times) -> None:
    request_id = uuid4().hex
    started = time.perf_counter()
    await admission.admit(principal, request_id, demand(100, 200, MICRO_PER_TOKEN))
    admitted = time.perf_counter()
    used = replace(usage(request_id, 100, 50, MICRO_PER_TOKEN), admitted_at=datetime.now(UTC))
    before = time.perf_counter()
    await admission.settle(principal, used)
    times.admit.append(1e3 * (admitted - started))
    times.settle.append(1e3 * (time.perf_counter() - before))


async def sustained(admission: Admission, principal: TenantPrincipal, seconds: float) -> None:
    """As many as go, printed."""
    times = Times([], [])
    end = time.perf_counter() + seconds

    async def client() -> None:
        while time.perf_counter() < end:
            await one_request(admission, principal, times)

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    rate = len(times.admit) / (time.perf_counter() - started)
    show("sustained", principal, {"requests_per_second": round(rate), **times.summary()})


async def paced(admission: Admission, principal: TenantPrincipal, seconds: float) -> None:
    """Fifty a second, whatever the ones before them do, printed."""
    times = Times([], [])
    started = time.perf_counter()
    tasks = []
    for number in range(int(seconds * REQUESTS_PER_SECOND)):
        await asyncio.sleep(max(0.0, started + number / REQUESTS_PER_SECOND - time.perf_counter()))
        tasks.append(asyncio.create_task(one_request(admission, principal, times)))
    await asyncio.gather(*tasks)
    show("paced", principal, times.summary())


def show(case: str, principal: TenantPrincipal, figures: dict[str, float]) -> None:
    limits = "default" if principal.member_id is None else "everywhere"
    line = json.dumps({"case": case, "limits": limits, **figures})
    print(line, flush=True)  # noqa: T201


async def limited_principal(system: Database) -> TenantPrincipal:
    """A caller with every limit on each of its four subjects."""
    principal = replace(await new_principal(system, **EVERY_LIMIT), member_id=uuid4())
    async with system.unit_of_work() as session:
        for subject, of in (
            (Subject.MODEL, MODEL),
            (Subject.MEMBER, str(principal.member_id)),
            (Subject.KEY, str(principal.key_id)),
        ):
            await set_limits(session, principal.tenant_id, subject, of, **EVERY_LIMIT)
    return principal


async def measure(app_url: str, system_url: str, seconds: float) -> None:
    system = Database(system_url, pool_size=1)
    database = Database(app_url, pool_size=10)
    admission = Admission(database, "benchmark")
    principals: Sequence[TenantPrincipal] = [
        await new_principal(system, max_concurrent_requests=64),
        await limited_principal(system),
    ]
    for principal in principals:
        await sustained(admission, principal, seconds)
        await paced(admission, principal, seconds)
    for one in (system, database):
        await one.dispose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="of each case")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        postgres = Postgres(Path(folder) / "postgres", free_port())
        with running(postgres, Path(folder) / "logs"):
            urls = role_urls(postgres)
            asyncio.run(measure(urls["database_url"], urls["database_system_url"], seconds))


if __name__ == "__main__":
    main()
