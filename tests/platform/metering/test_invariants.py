"""On a database of its own: nothing may be wrong in it that no test damaged."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import create_engine, select, text, update
from sqlalchemy.engine import make_url
from structlog.testing import capture_logs

from loraplex.adapters_registry.uploads import quota
from loraplex.engine.protocol.identity import Digest
from loraplex.platform.admission.limits import change_limits
from loraplex.platform.admission.models import Subject
from loraplex.platform.database.migrate import upgrade
from loraplex.platform.database.roles import MIGRATOR, ROLES, SYSTEM, create_roles
from loraplex.platform.database.sessions import Database
from loraplex.platform.database.urls import sqlalchemy_url
from loraplex.platform.embedded.postgres import Postgres
from loraplex.platform.metering.buckets import BucketWidth
from loraplex.platform.metering.checks import check_old, check_recent
from loraplex.platform.metering.invariants import INVARIANTS
from loraplex.platform.metering.models import BilledStorage, PriceRow
from loraplex.platform.metering.rollups import add_arrivals, minutes_kept_from, rebuild
from loraplex.platform.metering.service import Usage, entry_of
from loraplex.platform.metering.storage import HOUR, bill_next_hour
from loraplex.platform.metrics import REGISTRY
from loraplex.platform.settings import Settings
from tests.platform.metering.ledgers import ACTOR, Customer, entry, new_customer, write
from tests.platform.metering.made import FREE
from tests.platform.metering.test_storage import keep

KEPT_DAYS = 30
NOW = datetime.now(UTC).replace(minute=30, second=0, microsecond=0)
LONG_AGO = NOW - timedelta(days=10)
DIGEST = Digest("sha256:" + "b" * 64)
RATES = {"input": 400_000, "cached": 100_000, "output": 1_200_000}


@pytest.fixture(scope="module")
def urls(services: Settings) -> dict[str, str]:
    """A second database on the server, with the roles that are there."""
    first = services.database_url
    assert first is not None
    names = ("database_migrator_url", "database_system_url", "database_readonly_url")
    known = [first, *(getattr(services, name) for name in names)]
    parsed = {str(url.username): url for url in (make_url(one.get_secret_value()) for one in known)}
    passwords = {role: str(parsed[role].password) for role in ROLES}
    postgres = Postgres(services.data_dir / "postgres", parsed[SYSTEM].port or 0)
    create_roles(postgres.superuser_url, passwords, database="invariants")
    found = {
        role: url.set(database="invariants").render_as_string(hide_password=False)
        for role, url in parsed.items()
    }
    upgrade(found[MIGRATOR])
    return found


@pytest.fixture
async def system(urls: dict[str, str]) -> AsyncIterator[Database]:
    database = Database(urls[SYSTEM])
    yield database
    await database.dispose()


@pytest.fixture
def damage(urls: dict[str, str]) -> Iterator[Any]:
    """Run a statement as whoever may do everything."""
    engine = create_engine(sqlalchemy_url(urls[MIGRATOR]))

    def run(statement: str, **values: object) -> None:
        with engine.begin() as connection:
            assert connection.execute(text(statement), values).rowcount == 1

    yield run
    engine.dispose()


@pytest.fixture
async def customer(system: Database) -> AsyncIterator[Customer]:
    """With requests of today and of long ago at a price, a blob, and all that follows of them."""
    customer = await new_customer(system)
    async with system.unit_of_work() as session:
        session.add(
            price := PriceRow(
                tenant_id=customer.tenant_id,
                input_micros_per_million=RATES["input"],
                cached_input_micros_per_million=RATES["cached"],
                output_micros_per_million=RATES["output"],
                storage_micros_per_gib_month=730_000,
                currency="USD",
                effective_from=datetime.now(UTC) + timedelta(minutes=1),
            )
        )
        await session.flush()
        # 6 x 0.4 + 4 x 0.1 + 5 x 1.2 = 8.8 micros
        rows = [
            entry(customer, moment, price_id=price.id, cost_micros=9)
            for moment in (NOW, NOW - HOUR, LONG_AGO)
        ]
        await write(session, rows)
        await quota.record(session, customer.tenant_id, {DIGEST: 2**31})
    async with system.unit_of_work() as session:
        await add_arrivals(session, datetime(2000, 1, 1, tzinfo=UTC))
    yield customer
    async with system.unit_of_work() as session:
        await session.execute(text("DELETE FROM invariant_checks"))


def told() -> dict[str, float]:
    """The metric as Prometheus reads it."""
    families = text_string_to_metric_families(generate_latest(REGISTRY).decode())
    return {
        sample.labels["invariant"]: sample.value
        for family in families
        for sample in family.samples
        if sample.name == "loraplex_invariant_violations"
    }


async def violations(system: Database) -> dict[str, float]:
    """After both checks; those that are not 0."""
    await check_old(system, KEPT_DAYS)
    await check_recent(system, KEPT_DAYS)
    assert set(told()) == set(INVARIANTS)
    return {invariant: count for invariant, count in told().items() if count}


async def settle(
    system: Database,
    customer: Customer,
    request_id: str,
    *,
    model: str = "base",
    adapter_id: UUID | None = None,
    cost_micros: int = 0,
) -> None:
    """As admission does, of a call whose reservation was lost: free, or at the customer's price."""
    usage = Usage(
        request_id=request_id,
        model=model,
        base_model="base",
        price=FREE,
        adapter_digest=None,
        adapter_id=adapter_id,
        prompt_tokens=10,
        cached_tokens=4,
        output_tokens=5,
        outcome="completed",
        admitted_at=NOW,
    )
    told = entry_of(usage, api_key_id=customer.key_ids[0], member_id=None)
    told["cost_micros"] = cost_micros
    async with system.unit_of_work() as session:
        if cost_micros:
            mine = select(PriceRow.id).where(PriceRow.tenant_id == customer.tenant_id)
            told["price_id"] = await session.scalar(mine)
        entry = msgspec.json.encode(told).decode()
        await session.execute(
            text("SELECT gateway.settle(:tenant, CAST(:entry AS jsonb))"),
            {"tenant": customer.tenant_id, "entry": entry},
        )


async def test_nothing_is_violated_by_what_the_platform_does(
    system: Database, customer: Customer, damage: Any
) -> None:
    assert await violations(system) == {}
    await settle(system, customer, "settled")  # it has arrived, and is in no roll-up yet
    assert await violations(system) == {}
    await rebuild(system, customer.tenant_id, minutes_kept_from(NOW, KEPT_DAYS), ACTOR)
    assert await violations(system) == {}


TODAYS = "tenant_id = :tenant AND created_at = :now"
DAMAGES = [
    (
        "UPDATE usage_rollups SET output_tokens = output_tokens {} 1"
        " WHERE tenant_id = :tenant AND width = '1h' AND bucket_start = :hour",
        {"rollups": 1},
    ),
    (
        "UPDATE usage_rollups SET requests = requests {} 1"
        " WHERE tenant_id = :tenant AND width = '1d' AND bucket_start = :old_day",
        {"rollups": 1},
    ),
    (
        f"UPDATE ledger SET cost_micros = cost_micros {{}} 1 WHERE {TODAYS}",
        {"costs": 1, "rollups": 3},
    ),
    (f"UPDATE ledger SET cached_tokens = cached_tokens {{}} 1 WHERE {TODAYS}", {"rollups": 3}),
    (
        "UPDATE blobs SET size_bytes = size_bytes {} 1 WHERE tenant_id = :tenant",
        {"stored_blobs": 1},
    ),
]


@pytest.mark.parametrize(("change", "expected"), DAMAGES)
async def test_a_row_damaged_by_hand_raises_the_metric_until_it_is_mended(
    change: str, expected: dict[str, int], system: Database, customer: Customer, damage: Any
) -> None:
    values = {
        "tenant": customer.tenant_id,
        "now": NOW,
        "hour": BucketWidth.HOUR.begin(NOW),
        "old_day": BucketWidth.DAY.begin(LONG_AGO),
    }
    used = {name: value for name, value in values.items() if f":{name}" in change}
    damage(change.format("+"), **used)
    with capture_logs() as logs:
        assert await violations(system) == expected
    (first, *_) = [one for one in logs if one["event"] == "invariant_violated"]
    assert first["tenant_id"] == str(customer.tenant_id)
    assert first["expected"] != first["found"]
    damage(change.format("-"), **used)
    async with system.unit_of_work() as session:
        await session.execute(text("DELETE FROM invariant_checks"))
    assert await violations(system) == {}


async def test_old_damage_stays_in_the_metric_between_two_looks(
    system: Database, customer: Customer, damage: Any
) -> None:
    values = {"tenant": customer.tenant_id, "at": LONG_AGO}
    mended = "UPDATE ledger SET cost_micros = 9 WHERE tenant_id = :tenant AND created_at = :at"
    damage(mended.replace("= 9", "= 10"), **values)
    assert (await violations(system))["costs"] == 1
    damage(mended, **values)
    assert (await violations(system))["costs"] == 1
    await check_old(system, KEPT_DAYS, datetime.now(UTC) + timedelta(days=1, minutes=1))
    await check_recent(system, KEPT_DAYS)
    assert told()["costs"] == 0


async def test_an_hour_of_storage_that_was_billed_wrong_is_found(
    system: Database, customer: Customer, damage: Any
) -> None:
    this_hour = BucketWidth.HOUR.begin(datetime.now(UTC))
    hour = this_hour - HOUR
    await keep(system, customer, hour + timedelta(minutes=10), this_hour, 2**31)
    async with system.unit_of_work() as session:
        await session.execute(update(BilledStorage).values(billed_until=hour))
        assert await bill_next_hour(session, this_hour) == hour
    assert await violations(system) == {}
    wrong = (
        "UPDATE storage_hours SET byte_seconds = byte_seconds {} 1"
        " WHERE tenant_id = :tenant AND hour_start = :hour"
    )
    damage(wrong.format("+"), tenant=customer.tenant_id, hour=hour)
    assert await violations(system) == {"storage_hours": 1}
    damage(wrong.format("-"), tenant=customer.tenant_id, hour=hour)
    assert await violations(system) == {}


async def test_budgets_spent_are_the_ledgers_sum(system: Database, damage: Any) -> None:
    customer = await new_customer(system)
    damage(
        "UPDATE limits SET daily_budget_micros = 1000, monthly_budget_micros = 9000"
        " WHERE tenant_id = :tenant AND subject = 'tenant'",
        tenant=customer.tenant_id,
    )
    await settle(system, customer, "one")
    assert await violations(system) == {}
    spent = (
        "UPDATE limit_counters SET month = date_trunc('month', now() AT TIME ZONE 'UTC'),"
        " spent_month_micros = {} WHERE tenant_id = :tenant AND subject = 'tenant'"
    )
    damage(spent.format(5), tenant=customer.tenant_id)
    assert await violations(system) == {"budgets": 1}
    damage(spent.format(-5), tenant=customer.tenant_id)
    assert await violations(system) == {"budgets": 1, "negative_reservations": 1}
    damage(spent.format(0), tenant=customer.tenant_id)
    assert await violations(system) == {}


async def test_a_models_budget_is_spent_by_what_was_called_by_its_name(
    system: Database, customer: Customer, damage: Any
) -> None:
    first, second = uuid4(), uuid4()  # two adapters had the name, and the first is purged

    async def budget(model: str) -> None:
        async with system.unit_of_work() as session:
            order = {"monthly_budget_micros": 9000}
            await change_limits(session, ACTOR, customer.tenant_id, Subject.MODEL, model, order)

    await settle(system, customer, "before", model="support", adapter_id=first, cost_micros=9)
    await budget("support")
    await budget("elsewhere")
    calls = (
        (f"{customer.name}/support:prod", first),
        ("support:v7", second),
        (f"support@{DIGEST}", second),
        (f"{customer.name}/other", second),
        ("base", None),
    )
    for place, (model, adapter_id) in enumerate(calls):
        name = f"call-{place}"
        await settle(system, customer, name, model=model, adapter_id=adapter_id, cost_micros=9)
    async with system.unit_of_work() as session:
        rows = await session.execute(
            text(
                "SELECT s.place, s.month_micros FROM gateway.spent(:tenant, ARRAY['model',"
                " 'model'], ARRAY['support', 'elsewhere'], gateway.clock()) s ORDER BY s.place"
            ),
            {"tenant": customer.tenant_id},
        )
        assert rows.all() == [(1, 4 * 9), (2, 0)]
    assert await violations(system) == {}
    damage(
        "UPDATE limit_counters SET spent_month_micros = spent_month_micros + 1"
        " WHERE tenant_id = :tenant AND subject = 'model' AND subject_id = 'support'",
        tenant=customer.tenant_id,
    )
    assert await violations(system) == {"budgets": 1}
    damage(
        "UPDATE limit_counters SET spent_month_micros = spent_month_micros - 1"
        " WHERE tenant_id = :tenant AND subject = 'model' AND subject_id = 'support'",
        tenant=customer.tenant_id,
    )
    assert await violations(system) == {}


async def test_a_reservation_that_nobody_will_end_is_found(
    system: Database, customer: Customer, damage: Any
) -> None:
    await settle(system, customer, "over")
    made = (
        "INSERT INTO reservations (tenant_id, request_id, gateway_id, api_key_id, expires_at,"
        " hold_micros) VALUES (:tenant, :request, 'gone', :key, now() + :left, :hold)"
    )
    whose = {"tenant": customer.tenant_id, "key": customer.key_ids[0]}
    for request, left, hold, expected in (
        ("running", timedelta(minutes=1), 5, {}),
        ("recovering", timedelta(hours=-2), 5, {}),
        ("forgotten", timedelta(hours=-4), 5, {"orphaned_reservations": 1}),
        ("over", timedelta(minutes=1), 5, {"orphaned_reservations": 1}),
        ("negative", timedelta(minutes=1), -5, {"negative_reservations": 1}),
    ):
        damage(made, **whose, request=request, left=left, hold=hold)
        assert await violations(system) == expected, request
        damage("DELETE FROM reservations WHERE request_id = :request", request=request)
    assert await violations(system) == {}
