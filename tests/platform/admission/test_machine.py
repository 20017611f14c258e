"""Admission as a whole against a plain list of what was let in.

Whatever comes in whatever order and at whatever time: in no 60 seconds more than a limit, nothing
counted of what was refused, nothing refused without a cause, and reserved is what runs.
"""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import uuid4

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from loraplex.platform.admission.errors import LimitRefusal
from loraplex.platform.admission.models import Subject
from loraplex.platform.admission.service import LEASE, Admission
from loraplex.platform.database.sessions import Database
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.platform.admission.conftest import (
    MICRO_PER_TOKEN,
    Clock,
    demand,
    entries,
    in_use,
    new_principal,
    set_limits,
    usage,
)
from tests.soak import examples

WINDOW = timedelta(seconds=60)
COUNTED = timedelta(seconds=61)
"""The longest that a request counts: its second is over only then."""
LIMITS: dict[Subject, dict[str, int]] = {
    Subject.TENANT: {
        "requests_per_minute": 12,
        "tokens_per_minute": 150,
        "max_concurrent_requests": 5,
        "daily_budget_micros": 400,
    },
    Subject.KEY: {
        "requests_per_minute": 7,
        "prompt_tokens_per_minute": 60,
        "output_tokens_per_minute": 90,
        "max_concurrent_requests": 3,
        "monthly_budget_micros": 900,
    },
}


@dataclass
class Admitted:
    """A request that was let in; the tokens are what it may use, and then what it used."""

    key: str
    request_id: str
    at: datetime
    prompt: int
    output: int
    is_running: bool = True

    def amount(self, dimension: str) -> int:
        return {
            "requests_per_minute": 1,
            "tokens_per_minute": self.prompt + self.output,
            "prompt_tokens_per_minute": self.prompt,
            "output_tokens_per_minute": self.output,
        }[dimension]


class AdmissionMachine(RuleBasedStateMachine):
    """One tenant, two keys; the second key has no limits of its own."""

    services: Settings
    running = Bundle("running")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.clock = Clock()
        self.admitted: list[Admitted] = []
        self.numbers = count()
        self.settled = 0

    @initialize()
    def begin(self) -> None:
        app, system = self.services.database_url, self.services.database_system_url
        assert app is not None
        assert system is not None
        self.database = Database(app.get_secret_value())
        self.system = Database(system.get_secret_value())
        self.clock.watch(self.database)
        # Noon of a day in the middle of a month: what goes on changes neither by itself.
        self.clock.to(lambda now: now.replace(day=10, hour=12, minute=0))
        self.admission = Admission(self.database, uuid4().hex)
        self.keys = self.loop.run(self._tenant())

    async def _tenant(self) -> list[TenantPrincipal]:
        limited = await new_principal(self.system, **LIMITS[Subject.TENANT])
        other = replace(limited, key_id=None, member_id=uuid4())
        async with self.system.unit_of_work() as session:
            await set_limits(
                session,
                limited.tenant_id,
                Subject.KEY,
                str(limited.key_id),
                **LIMITS[Subject.KEY],
            )
        return [limited, other]

    @rule(
        target=running,
        which=st.integers(0, 1),
        prompt=st.integers(1, 40),
        output=st.integers(1, 60),
    )
    def ask(self, which: int, prompt: int, output: int) -> Any:
        principal, request_id = self.keys[which], f"request-{next(self.numbers)}"
        before = datetime.now(UTC) + self.clock.offset
        wanted = demand(prompt, output, MICRO_PER_TOKEN)
        try:
            admitted = self.loop.run(self.admission.admit(principal, request_id, wanted))
        except LimitRefusal as refusal:
            self._check_cause(refusal, principal, before, prompt, output)
            return None
        one = Admitted(str(principal.key_id), request_id, admitted.admitted_at, prompt, output)
        self.admitted.append(one)
        self._check_windows(one.at)
        return one

    @rule(one=consumes(running), part=st.floats(0, 1))
    def end(self, one: Admitted | None, part: float) -> None:
        if one is None:
            return
        output = int(part * one.output)
        prompt = one.prompt if output else 0
        principal = next(key for key in self.keys if str(key.key_id) == one.key)
        used = usage(one.request_id, prompt, output, MICRO_PER_TOKEN)
        self.loop.run(self.admission.settle(principal, used))
        self.loop.run(self.admission.settle(principal, used))
        one.prompt, one.output, one.is_running = prompt, output, False
        self.settled += 1

    @rule(seconds=st.sampled_from([0.2, 1, 7, 25, 59, 60, 61, 86400]))
    def wait(self, seconds: float) -> None:
        self.clock.go_on(seconds=seconds)

    @invariant()
    def reserved_is_what_runs(self) -> None:
        if not hasattr(self, "keys"):
            return
        used = self.loop.run(in_use(self.database, self.keys[0]))
        running = [one for one in self.admitted if one.is_running]
        assert used["reserved_micros"] == sum(one.prompt + one.output for one in running)
        assert used["spent_day_micros"] + used["reserved_micros"] <= 400
        rows = self.loop.run(entries(self.system, self.keys[0]))
        assert len(rows) == self.settled
        assert used["spent_month_micros"] == sum(row.cost_micros for row in rows)

    def _check_windows(self, at: datetime) -> None:
        """In the 60 seconds that end here there is no more than each limit."""
        for subject, limits in LIMITS.items():
            mine = self._of(subject)
            for dimension, limit in limits.items():
                if dimension.endswith("_per_minute"):
                    recent = [one for one in mine if one.at > at - WINDOW]
                    assert sum(one.amount(dimension) for one in recent) <= limit, dimension
                elif dimension == "max_concurrent_requests":
                    live = [one for one in mine if one.is_running and one.at + LEASE > at]
                    assert len(live) <= limit, dimension

    def _check_cause(
        self,
        refusal: LimitRefusal,
        principal: TenantPrincipal,
        before: datetime,
        prompt: int,
        output: int,
    ) -> None:
        """The limit that is named is in the way of this request indeed."""
        subject = Subject(refusal.subject)
        mine, limit = self._of(subject), LIMITS[subject][refusal.dimension]
        assert limit == refusal.limit
        assert subject is Subject.TENANT or principal is self.keys[0]
        if refusal.dimension.endswith("_per_minute"):
            wanted = Admitted("", "", before, prompt, output).amount(refusal.dimension)
            counted = [one for one in mine if one.at > before - COUNTED]
            assert sum(one.amount(refusal.dimension) for one in counted) + wanted > limit
            assert 1 <= (refusal.retry_after_seconds or 0) <= 61
        elif refusal.dimension == "max_concurrent_requests":
            assert sum(one.is_running for one in mine) >= limit
        else:
            assert sum(one.prompt + one.output for one in mine) + prompt + output > limit

    def _of(self, subject: Subject) -> list[Admitted]:
        if subject is Subject.TENANT:
            return self.admitted
        return [one for one in self.admitted if one.key == str(self.keys[0].key_id)]

    def teardown(self) -> None:
        if hasattr(self, "database"):
            self.loop.run(self.database.dispose())
            self.loop.run(self.system.dispose())
        self.loop.close()


def test_whatever_comes_no_limit_is_passed(services: Settings) -> None:
    machine = type("Machine", (AdmissionMachine,), {"services": services})
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=examples(8, 500), stateful_step_count=30, deadline=None),
    )
