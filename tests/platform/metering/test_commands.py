from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import select
from typer.testing import CliRunner, Result

from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.commands import price as price_commands
from loraplex.platform.metering.commands import usage as usage_commands
from loraplex.platform.metering.models import PriceRow
from tests.platform.metering.ledgers import MIDNIGHT, Customer, entry, new_customer, write
from tests.platform.metering.test_rollups import add_all, rollups

pytestmark = pytest.mark.usefixtures("operators_environment")
runner = CliRunner(env={"COLUMNS": "250"})
RATES = ("--input", "400000", "--cached-input", "100000", "--output", "1200000")


def prices(*arguments: str) -> Result:
    return runner.invoke(price_commands, arguments)


@pytest.fixture
async def customer(system_database: Database) -> Customer:
    return await new_customer(system_database)


async def made(system: Database, base: str) -> list[PriceRow]:
    async with system.unit_of_work() as session:
        return list(await session.scalars(select(PriceRow).where(PriceRow.base_model == base)))


def run_apart(function: object, *arguments: str) -> Result:
    """A command has an event loop of its own, which cannot run inside a test's."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(runner.invoke, function, arguments).result()  # type: ignore[arg-type]


async def test_a_price_is_made_for_somebody_from_a_moment_on(
    system_database: Database, customer: Customer
) -> None:
    base = f"base-{uuid4().hex[:8]}"
    moment = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)
    result = run_apart(
        price_commands,
        *("create", *RATES, "--base-model", base, "--tenant", customer.name),
        *("--effective-from", f"{moment:%Y-%m-%dT%H:%M:%SZ}"),
    )
    assert result.exit_code == 0, result.output
    (row,) = await made(system_database, base)
    assert (row.tenant_id, row.effective_from) == (customer.tenant_id, moment)
    assert row.cached_input_micros_per_million == 100_000
    listed = run_apart(price_commands, "list").stdout
    assert base in listed
    assert customer.name in listed


def test_a_price_that_cannot_be_is_refused_in_words() -> None:
    nobody = prices("create", *RATES, "--tenant", "nobody")
    assert (nobody.exit_code, "nobody" in nobody.stderr) == (1, True)
    storage = prices("create", *RATES, "--base-model", "b", "--storage", "1")
    assert storage.exit_code == 2
    dear = prices("create", "--input", "1", "--cached-input", "2", "--output", "3")
    assert dear.exit_code == 2
    early = prices("create", *RATES, "--effective-from", "2026-01-01T00:00:00Z")
    assert early.exit_code == 1


async def test_usage_is_made_anew_and_checked(
    system_database: Database, customer: Customer
) -> None:
    async with system_database.unit_of_work() as session:
        await write(session, [entry(customer, MIDNIGHT, cost_micros=0)])
    await add_all(system_database)
    before = [row for row in await rollups(system_database, customer) if row[1] != "1m"]
    result = run_apart(usage_commands, "rebuild", "--tenant", customer.name)
    assert result.stdout == "Usage of 1 tenants is made anew.\n"
    assert [r for r in await rollups(system_database, customer) if r[1] != "1m"] == before
    # Other tests have damaged the rows that they share this database with.
    checked = run_apart(usage_commands, "check")
    assert (checked.exit_code == 0) == ("Everything agrees." in checked.output)
    assert str(customer.tenant_id) not in checked.output
