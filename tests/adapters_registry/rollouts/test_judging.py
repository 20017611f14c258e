"""A rollout is rolled back for its candidate's own errors, and for nothing else."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select

from loraplex.adapters_registry.rollouts import aliases, conditions, service
from loraplex.adapters_registry.rollouts.errors import RolloutEnded
from loraplex.adapters_registry.rollouts.judging import judge_rollouts
from loraplex.adapters_registry.rollouts.models import Rollout, RolloutStatus
from loraplex.adapters_registry.rollouts.service import Plan
from loraplex.adapters_registry.rollouts.views import RolloutView
from loraplex.adapters_registry.versions import quarantine
from loraplex.adapters_registry.versions.models import VersionStatus
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.platform.audit.actors import Actor
from loraplex.platform.database.sessions import Database
from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.tenancy.models import Tenant
from loraplex.platform.tenancy.principals import TenantPrincipal
from loraplex.platform.webhooks.models import WebhookEvent
from tests.adapters_registry.versions.planned import PlannedAdapter, PlannedVersion, add_adapter

TESTER = Actor.system("test")
STABLE, CANDIDATE = 1, 2


class Canary:
    """`prod` at version 1, half of it rolled out to version 2; more than 20 % of 10 is too much."""

    def __init__(self, database: Database, system: Database, tenant: TenantPrincipal) -> None:
        self.database, self.system, self.tenant = database, system, tenant
        self.id: UUID = uuid4()

    async def do(self, action: Callable[..., Any], *arguments: Any) -> Any:
        async with self.database.unit_of_work(self.tenant.tenant_id) as session:
            return await action(session, self.tenant, "support", *arguments)

    async def start(self) -> None:
        await self.do(aliases.set_alias, "prod", STABLE, None)
        plan = Plan("prod", CANDIDATE, 50, 20, 300, 10)
        self.id = (await self.do(service.start, plan)).id

    async def serve(
        self, requests: int, error_code: str | None = None, version: int = CANDIDATE, age: int = 0
    ) -> None:
        """Settle requests of a version, so many seconds ago."""
        at = datetime.now(UTC) - timedelta(seconds=age)
        async with self.system.unit_of_work() as session:
            adapter_id = await session.scalar(
                select(Rollout.adapter_id).where(Rollout.id == self.id)
            )
            for _ in range(requests):
                session.add(
                    LedgerEntry(
                        tenant_id=self.tenant.tenant_id,
                        request_id=uuid4().hex,
                        api_key_id=self.tenant.key_id,
                        model="support",
                        adapter_id=adapter_id,
                        adapter_version=version,
                        prompt_tokens=0,
                        cached_tokens=0,
                        output_tokens=0,
                        outcome="failed" if error_code else "completed",
                        error_code=error_code,
                        admitted_at=at,
                        created_at=at,
                    )
                )

    async def judged(self) -> RolloutView:
        await judge_rollouts(self.system)
        view = await self.do(service.get_rollout, self.id)
        assert isinstance(view, RolloutView)
        return view

    async def events(self) -> list[tuple[str, object]]:
        mine = WebhookEvent.tenant_id == self.tenant.tenant_id
        async with self.system.unit_of_work() as session:
            rows = await session.scalars(select(WebhookEvent).where(mine))
            return [(row.type, row.data.get("reason")) for row in rows]


@pytest.fixture
async def canary(
    database: Database, system_database: Database, tenant: TenantPrincipal, base: ModuleTable
) -> Canary:
    versions = (PlannedVersion(VersionStatus.READY),) * 2
    await add_adapter(system_database, tenant, base, PlannedAdapter("support", True, versions))
    canary = Canary(database, system_database, tenant)
    await canary.start()
    return canary


async def test_more_errors_than_allowed_roll_back_once_and_tell(canary: Canary) -> None:
    await canary.serve(7)
    await canary.serve(3, "adapter_unavailable")
    judged = await canary.judged()
    assert (judged.status, judged.end_reason) == (RolloutStatus.ROLLED_BACK, "error_rate")
    assert (judged.observed_requests, judged.observed_errors) == (10, 3)
    assert await canary.judged() == judged
    assert (await canary.do(aliases.get_alias, "prod")).version == STABLE
    with pytest.raises(RolloutEnded):
        await canary.do(service.promote, canary.id)
    rolled_back = [event for event in await canary.events() if event[0] == "rollout.rolled_back"]
    assert rolled_back == [("rollout.rolled_back", "error_rate")]


async def test_as_many_errors_as_allowed_are_allowed(canary: Canary) -> None:
    await canary.serve(8)
    await canary.serve(2, "engine_failure")
    judged = await canary.judged()
    assert judged.status is RolloutStatus.RUNNING
    assert (judged.observed_requests, judged.observed_errors) == (10, 2)


async def test_too_few_requests_say_nothing(canary: Canary) -> None:
    await canary.serve(9, "adapter_unavailable")
    assert (await canary.judged()).status is RolloutStatus.RUNNING


@pytest.mark.parametrize(
    "error_code", ["context_length_exceeded", "invalid_engine_request", "no_worker_available"]
)
async def test_what_is_not_the_versions_fault_does_not_count(
    error_code: str, canary: Canary
) -> None:
    await canary.serve(20, error_code)
    await canary.serve(20, "adapter_unavailable", version=STABLE)
    await canary.serve(20, "adapter_unavailable", age=3600)
    judged = await canary.judged()
    assert (judged.status, judged.observed_errors) == (RolloutStatus.RUNNING, 0)


async def test_after_a_resumption_errors_are_counted_anew(canary: Canary) -> None:
    await canary.serve(20, "adapter_unavailable")
    await canary.do(service.pause, canary.id)
    assert (await canary.judged()).status is RolloutStatus.PAUSED
    await canary.do(service.resume, canary.id)
    judged = await canary.judged()
    assert (judged.status, judged.observed_requests) == (RolloutStatus.RUNNING, 0)


async def test_a_quarantined_candidate_is_rolled_back(canary: Canary) -> None:
    async with canary.system.unit_of_work() as session:
        owner = await session.get_one(Tenant, canary.tenant.tenant_id)
        await quarantine.quarantine(session, TESTER, owner, "support", CANDIDATE, "smells")
    assert (await canary.judged()).end_reason == "candidate_unusable"


async def test_a_promotion_moves_the_alias_and_twice_is_once(canary: Canary) -> None:
    for _ in range(2):
        assert (await canary.do(service.promote, canary.id)).status is RolloutStatus.PROMOTED
    alias = await canary.do(aliases.get_alias, "prod")
    assert (alias.version, alias.generation) == (CANDIDATE, 2)
    with pytest.raises(RolloutEnded):
        await canary.do(service.roll_back, canary.id)
    back = await canary.do(aliases.roll_back_alias, "prod", 2)
    assert back.version == STABLE


async def test_a_change_that_is_under_way_is_left_for_the_next_look(canary: Canary) -> None:
    await canary.serve(20, "adapter_unavailable")
    async with canary.database.unit_of_work(canary.tenant.tenant_id) as session:
        await conditions.hold(session, canary.tenant, "support")
        assert await judge_rollouts(canary.system) == 0
        view = await service.promote(session, canary.tenant, "support", canary.id)
        assert view.status is RolloutStatus.PROMOTED
    assert (await canary.judged()).status is RolloutStatus.PROMOTED
