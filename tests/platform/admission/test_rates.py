"""Rates count in any 60 seconds, by the second: never more than a limit, whatever the minute."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest

from loraplex.platform.admission.errors import RateLimitExceeded, RequestExceedsLimit
from loraplex.platform.admission.models import Subject
from loraplex.platform.admission.service import Admission
from loraplex.platform.database.sessions import Database
from tests.platform.admission.conftest import (
    MODEL,
    Clock,
    demand,
    in_use,
    new_principal,
    reserved,
    set_limits,
    usage,
)


async def test_of_a_hundred_tokens_a_minute_ninety_five_fit_once(
    admission: Admission, system_database: Database, clock: Clock
) -> None:
    principal = await new_principal(system_database, tokens_per_minute=100)
    clock.to_fraction(0.5)
    await admission.admit(principal, "one", demand(90, 5))
    await admission.settle(principal, usage("one", 90, 5))
    for seconds in (0, 30, 29.4):
        clock.go_on(seconds=seconds)
        with pytest.raises(RateLimitExceeded) as caught:
            await admission.admit(principal, "two", demand(90, 5))
        assert (caught.value.dimension, caught.value.limit, caught.value.used) == (
            "tokens_per_minute",
            100,
            95,
        )
    clock.go_on(seconds=caught.value.retry_after_seconds or 0)
    await admission.admit(principal, "two", demand(90, 5))


async def test_what_was_reserved_and_not_used_is_given_back(
    admission: Admission, moved_database: Database, system_database: Database
) -> None:
    principal = await new_principal(
        system_database, tokens_per_minute=1000, output_tokens_per_minute=900
    )
    await admission.admit(principal, "one", demand(100, 800))
    assert (await in_use(moved_database, principal))["output_tokens"] == 800
    await admission.settle(principal, usage("one", 100, 7))
    after = await in_use(moved_database, principal)
    assert (after["requests"], after["prompt_tokens"], after["output_tokens"]) == (1, 100, 7)
    await admission.admit(principal, "two", demand(100, 793))
    after = await in_use(moved_database, principal)
    assert (after["requests"], after["prompt_tokens"], after["output_tokens"]) == (2, 200, 800)


async def test_a_refusal_charges_nothing_of_any_subject(
    admission: Admission, moved_database: Database, system_database: Database
) -> None:
    principal = await new_principal(
        system_database, requests_per_minute=10, max_concurrent_requests=1
    )
    async with system_database.unit_of_work() as session:
        await set_limits(
            session, principal.tenant_id, Subject.KEY, str(principal.key_id), requests_per_minute=5
        )
    await admission.admit(principal, "one", demand())
    for attempt in range(3):
        with pytest.raises(RateLimitExceeded) as caught:
            await admission.admit(principal, f"refused-{attempt}", demand())
        assert caught.value.dimension == "max_concurrent_requests"
    tenants = await in_use(moved_database, principal)
    keys = await in_use(moved_database, principal, Subject.KEY, str(principal.key_id))
    assert (tenants["requests"], keys["requests"]) == (1, 1)
    assert await reserved(system_database, principal) == ["one"]


@pytest.mark.parametrize(
    ("subject", "of"), [(Subject.MODEL, MODEL), (Subject.KEY, "key"), (Subject.MEMBER, "member")]
)
async def test_each_subject_has_limits_of_its_own(
    admission: Admission, system_database: Database, subject: Subject, of: str
) -> None:
    from dataclasses import replace

    principal = replace(
        await new_principal(system_database, requests_per_minute=10), member_id=uuid4()
    )
    ids = {"key": str(principal.key_id), "member": str(principal.member_id)}
    async with system_database.unit_of_work() as session:
        await set_limits(
            session, principal.tenant_id, subject, ids.get(of, of), prompt_tokens_per_minute=5
        )
    await admission.admit(principal, "one", demand(3, 100))
    with pytest.raises(RateLimitExceeded) as caught:
        await admission.admit(principal, "two", demand(3, 100))
    assert (caught.value.subject, caught.value.used) == (subject, 3)


async def test_what_could_never_fit_is_told_so(
    admission: Admission, system_database: Database
) -> None:
    principal = await new_principal(system_database, output_tokens_per_minute=100)
    with pytest.raises(RequestExceedsLimit) as caught:
        await admission.admit(principal, "one", demand(3, 101))
    assert (caught.value.rule, caught.value.value) == ("output_tokens_per_minute of 100", 101)


async def test_the_headers_tell_of_the_tightest_limit_of_each_kind(
    admission: Admission, system_database: Database, clock: Clock
) -> None:
    principal = await new_principal(system_database, requests_per_minute=10, tokens_per_minute=1000)
    async with system_database.unit_of_work() as session:
        await set_limits(session, principal.tenant_id, Subject.MODEL, MODEL, requests_per_minute=2)
    clock.to_fraction(0.1)
    admitted = await admission.admit(principal, "one", demand(3, 5))
    assert {(w.kind, w.limit, w.remaining) for w in admitted.windows} == {
        ("requests", 2, 1),
        ("tokens", 1000, 992),
    }
    await admission.admit(principal, "two", demand(3, 5))
    with pytest.raises(RateLimitExceeded) as caught:
        await admission.admit(principal, "three", demand(3, 5))
    assert {(w.kind, w.remaining) for w in caught.value.windows} == {
        ("requests", 0),
        ("tokens", 984),
    }
    assert 60 < max(window.reset_seconds for window in caught.value.windows) <= 61


async def test_of_fifty_at_once_as_many_pass_as_a_rate_allows(
    admission: Admission, system_database: Database, clock: Clock
) -> None:
    principal = await new_principal(system_database, tokens_per_minute=80)
    clock.to_fraction(0)

    async def attempt(number: int) -> bool:
        try:
            await admission.admit(principal, str(number), demand(3, 5))
        except RateLimitExceeded:
            return False
        return True

    assert sum(await asyncio.gather(*(attempt(number) for number in range(50)))) == 10


async def test_a_limit_that_comes_later_is_not_given_back_what_it_never_counted(
    admission: Admission, moved_database: Database, system_database: Database
) -> None:
    principal = await new_principal(system_database)
    await admission.admit(principal, "before", demand(3, 500))
    async with system_database.unit_of_work() as session:
        await set_limits(
            session, principal.tenant_id, Subject.TENANT, "", output_tokens_per_minute=100
        )
    await admission.admit(principal, "after", demand(3, 90))
    await admission.settle(principal, usage("before", 3, 1))
    assert (await in_use(moved_database, principal))["output_tokens"] == 90


async def test_a_clock_that_is_set_back_lets_nobody_in_early(
    admission: Admission, system_database: Database, clock: Clock
) -> None:
    principal = await new_principal(system_database, requests_per_minute=2)
    clock.to_fraction(0.2)
    await admission.admit(principal, "one", demand())
    clock.offset -= timedelta(seconds=5)
    await admission.admit(principal, "two", demand())
    with pytest.raises(RateLimitExceeded):
        await admission.admit(principal, "three", demand())
    clock.go_on(seconds=60)
    with pytest.raises(RateLimitExceeded):
        await admission.admit(principal, "three", demand())
    clock.go_on(seconds=6)
    await admission.admit(principal, "three", demand())
