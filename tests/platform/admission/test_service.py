import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import select, update

from loraplex.platform.admission.errors import RateLimitExceeded
from loraplex.platform.admission.models import Reservation, Subject
from loraplex.platform.admission.service import LEASE, Admission, sweep_reservations
from loraplex.platform.database.sessions import Database
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.errors import TenantSuspended
from loraplex.platform.tenancy.models import Tenant, TenantState
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.platform.admission.conftest import (
    demand,
    entries,
    new_principal,
    reserved,
    set_limits,
    usage,
)

LIMIT = 8


async def set_expiry(system: Database, principal: TenantPrincipal, seconds: float) -> None:
    async with system.unit_of_work() as session:
        mine = update(Reservation).where(Reservation.tenant_id == principal.tenant_id)
        when = datetime.now(UTC) + timedelta(seconds=seconds)
        await session.execute(mine.values(expires_at=when))


async def test_of_fifty_at_once_exactly_the_limit_pass(
    database: Database, system_database: Database, principal: TenantPrincipal
) -> None:
    gateways = [Admission(database, f"gateway-{number}") for number in range(3)]

    async def attempt(number: int) -> bool:
        try:
            await gateways[number % 3].admit(principal, f"request-{number}", demand())
        except RateLimitExceeded:
            return False
        return True

    admitted = await asyncio.gather(*(attempt(number) for number in range(50)))
    assert sum(admitted) == LIMIT
    assert len(await reserved(system_database, principal)) == LIMIT


async def test_the_refusal_names_the_limit(admission: Admission, system_database: Database) -> None:
    principal = await new_principal(system_database, max_concurrent_requests=0)
    with pytest.raises(RateLimitExceeded) as caught:
        await admission.admit(principal, "one", demand())
    refusal = caught.value
    assert (refusal.subject, refusal.dimension) == ("tenant", "max_concurrent_requests")
    assert (refusal.limit, refusal.used, refusal.retry_after_seconds) == (0, 0, 1)


async def test_the_limit_that_counts_is_the_one_in_the_database(
    admission: Admission, system_database: Database, principal: TenantPrincipal
) -> None:
    async with system_database.unit_of_work() as session:
        await set_limits(
            session, principal.tenant_id, Subject.TENANT, "", max_concurrent_requests=1
        )
    await admission.admit(principal, "one", demand())
    with pytest.raises(RateLimitExceeded):
        await admission.admit(principal, "two", demand())


async def test_a_neighbours_requests_do_not_count(
    admission: Admission, system_database: Database
) -> None:
    mine, theirs = [
        await new_principal(system_database, max_concurrent_requests=1) for _ in range(2)
    ]
    await admission.admit(mine, "one", demand())
    await admission.admit(theirs, "one", demand())


async def test_a_suspended_tenant_is_not_admitted(
    admission: Admission, system_database: Database, principal: TenantPrincipal
) -> None:
    async with system_database.unit_of_work() as session:
        mine = update(Tenant).where(Tenant.id == principal.tenant_id)
        await session.execute(mine.values(state=TenantState.SUSPENDED))
    with pytest.raises(TenantSuspended):
        await admission.admit(principal, "one", demand())
    assert await reserved(system_database, principal) == []


async def test_settling_bills_and_gives_the_place_back(
    admission: Admission, system_database: Database
) -> None:
    principal = await new_principal(system_database, max_concurrent_requests=1)
    await admission.admit(principal, "one", demand())
    await admission.settle(principal, usage("one"))
    assert await reserved(system_database, principal) == []
    [entry] = await entries(system_database, principal)
    assert (entry.request_id, entry.api_key_id) == ("one", principal.key_id)
    assert (entry.prompt_tokens, entry.cached_tokens, entry.output_tokens) == (3, 0, 5)
    await admission.admit(principal, "two", demand())


async def test_settling_twice_keeps_the_first_bill(
    admission: Admission, system_database: Database, principal: TenantPrincipal
) -> None:
    await admission.admit(principal, "one", demand())
    await asyncio.gather(
        *(admission.settle(principal, usage("one", output_tokens=5)) for _ in range(5))
    )
    await admission.settle(principal, usage("one", output_tokens=99))
    [entry] = await entries(system_database, principal)
    assert entry.output_tokens == 5


async def test_a_lapsed_reservation_holds_no_place_and_stays_until_it_is_settled(
    admission: Admission, system_database: Database
) -> None:
    principal = await new_principal(system_database, max_concurrent_requests=1)
    await admission.admit(principal, "dead", demand())
    await set_expiry(system_database, principal, -1)
    await admission.admit(principal, "alive", demand())
    async with system_database.unit_of_work() as session:
        await sweep_reservations(session)
    assert await reserved(system_database, principal) == ["alive", "dead"]
    await admission.settle(principal, usage("dead"))
    assert await reserved(system_database, principal) == ["alive"]
    assert len(await entries(system_database, principal)) == 1


async def test_what_a_gateway_of_an_older_release_left_is_swept(
    admission: Admission, system_database: Database, principal: TenantPrincipal
) -> None:
    await admission.admit(principal, "old", demand())
    await set_expiry(system_database, principal, -1)
    async with system_database.unit_of_work() as session:
        mine = update(Reservation).where(Reservation.tenant_id == principal.tenant_id)
        await session.execute(mine.values(base_model=None))
        assert await sweep_reservations(session) >= 1
    assert await reserved(system_database, principal) == []


async def test_a_request_whose_settlement_failed_is_renewed_until_it_is_given_up(
    services: Settings, system_database: Database, principal: TenantPrincipal
) -> None:
    assert services.database_url is not None
    database = Database(services.database_url.get_secret_value())
    admission = Admission(database, uuid4().hex)
    await admission.admit(principal, "one", demand())
    unwritable = replace(usage("one"), output_tokens=2**40)
    with pytest.raises(psycopg.DataError):
        await admission.settle(principal, unwritable)
    await set_expiry(system_database, principal, -1)
    await admission.renew()
    assert await expiry_in(system_database, principal) > LEASE / 2
    admission.give_up("one")
    await set_expiry(system_database, principal, -1)
    await admission.renew()
    assert await expiry_in(system_database, principal) < timedelta()
    await database.dispose()


async def expiry_in(system: Database, principal: TenantPrincipal) -> timedelta:
    async with system.unit_of_work() as session:
        mine = select(Reservation.expires_at).where(Reservation.tenant_id == principal.tenant_id)
        return (await session.scalars(mine)).one() - datetime.now(UTC)


async def test_a_gateway_renews_what_it_runs_and_nothing_else(
    database: Database, system_database: Database, principal: TenantPrincipal
) -> None:
    neighbour = await new_principal(system_database)
    mine, other = Admission(database, uuid4().hex), Admission(database, uuid4().hex)
    await mine.admit(principal, "running", demand())
    await mine.admit(neighbour, "running-too", demand())
    await mine.admit(principal, "settled-in-vain", demand())
    await other.admit(principal, "of-another-gateway", demand())
    for owner in (principal, neighbour):
        await set_expiry(system_database, owner, 1)
    mine.give_up("settled-in-vain")
    await mine.renew()
    soon = datetime.now(UTC) + LEASE / 2
    async with system_database.unit_of_work() as session:
        tenants = [principal.tenant_id, neighbour.tenant_id]
        renewed = await session.scalars(
            select(Reservation.request_id).where(
                Reservation.tenant_id.in_(tenants), Reservation.expires_at > soon
            )
        )
        assert set(renewed.all()) == {"running", "running-too"}
