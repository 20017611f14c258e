"""Moves, rollouts, deletions, quarantines, purges and collections in any order, on real Postgres.

The model is three dictionaries: what each alias points at, what it pointed at before, and which
versions can be called. After every step the tables must say the same.
"""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.adapters_registry.errors import VersionInUse
from loraplex.adapters_registry.errors import VersionNotFound as NoSuchVersion
from loraplex.adapters_registry.rollouts import aliases, service
from loraplex.adapters_registry.rollouts.errors import (
    NothingToRollBack,
    RolloutOpen,
    SameVersion,
    VersionNotCallable,
)
from loraplex.adapters_registry.rollouts.models import Alias, RolloutStatus
from loraplex.adapters_registry.rollouts.service import Plan
from loraplex.adapters_registry.versions import quarantine, removal
from loraplex.adapters_registry.versions.collection import Collector
from loraplex.engine.protocol.identity import Digest, digest_of_bytes
from loraplex.platform.admission.models import Reservation
from loraplex.platform.audit.actors import Actor
from loraplex.platform.blobs import blob_key
from loraplex.platform.settings import Settings
from loraplex.platform.tenancy.models import Tenant
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.adapters_registry.rollouts.registry import NAME, Registry
from tests.soak import examples

ALIASES = ("prod", "canary")
TESTER = Actor.system("test")
NOTHING = timedelta(0)
alias_names = st.sampled_from(ALIASES)
picks = st.integers(0, 5)


class RegistryMachine(RuleBasedStateMachine):
    services: Settings

    @initialize()
    def open_registry(self) -> None:
        self.registry = Registry(self.services)
        self.content: dict[int, bytes] = {}
        self.deleted: set[int] = set()
        self.quarantined: set[int] = set()
        self.purged: set[int] = set()
        self.points_at: dict[str, int] = {}
        self.before: dict[str, int | None] = {}
        self.generation: dict[str, int] = {}
        self.rollouts: dict[str, tuple[UUID, int]] = {}
        self.running: set[Digest] = set()
        self.upload_new()

    def teardown(self) -> None:
        if hasattr(self, "registry"):
            self.registry.close()

    @property
    def principal(self) -> TenantPrincipal:
        return self.registry.principal

    @property
    def callable(self) -> set[int]:
        return set(self.content) - self.deleted - self.quarantined - self.purged

    def version(self, pick: int) -> int:
        """A version that was not purged."""
        kept = sorted(set(self.content) - self.purged)
        return kept[pick % len(kept)] if kept else 1

    def moved(self, alias: str, to: int | None) -> None:
        self.before[alias] = self.points_at.get(alias)
        self.generation[alias] = self.generation.get(alias, 0) + 1
        if to is None:
            del self.points_at[alias]
        else:
            self.points_at[alias] = to

    @precondition(lambda self: len(self.content) < 5)
    @rule()
    def upload_new(self) -> None:
        content = b"weights %d" % len(self.content)
        number = self.registry.upload(content)
        assert number == len(self.content) + 1, "a number is never given twice"
        self.content[number] = content

    @rule(alias=alias_names, pick=picks)
    def point(self, alias: str, pick: int) -> None:
        number = self.version(pick)
        expected = self.generation[alias] if alias in self.points_at else None

        async def work(session: AsyncSession) -> None:
            await aliases.set_alias(session, self.principal, NAME, alias, number, expected)

        if number in self.purged:
            with pytest.raises(NoSuchVersion):
                self.registry.mine(work)
        elif number not in self.callable:
            with pytest.raises(VersionNotCallable):
                self.registry.mine(work)
        elif self.points_at.get(alias) == number:
            self.registry.mine(work)
        elif alias in self.rollouts:
            with pytest.raises(RolloutOpen):
                self.registry.mine(work)
        else:
            self.registry.mine(work)
            self.moved(alias, number)

    @precondition(lambda self: self.points_at)
    @rule(alias=alias_names)
    def roll_back_alias(self, alias: str) -> None:
        if alias not in self.points_at or alias in self.rollouts:
            return
        former = self.before[alias]

        async def work(session: AsyncSession) -> None:
            expected = self.generation[alias]
            await aliases.roll_back_alias(session, self.principal, NAME, alias, expected)

        if former is None:
            with pytest.raises(NothingToRollBack):
                self.registry.mine(work)
        elif former in self.purged:
            with pytest.raises(NoSuchVersion):
                self.registry.mine(work)
        elif former not in self.callable:
            with pytest.raises(VersionNotCallable):
                self.registry.mine(work)
        else:
            self.registry.mine(work)
            self.moved(alias, former)

    @rule(alias=alias_names)
    def remove_alias(self, alias: str) -> None:
        if alias not in self.points_at or alias in self.rollouts:
            return

        async def work(session: AsyncSession) -> None:
            expected = self.generation[alias]
            await aliases.remove_alias(session, self.principal, NAME, alias, expected)

        self.registry.mine(work)
        self.moved(alias, None)

    @rule(alias=alias_names, pick=picks, weight=st.sampled_from([0, 50, 100]))
    def start_rollout(self, alias: str, pick: int, weight: int) -> None:
        number = self.version(pick)
        if alias not in self.points_at or alias in self.rollouts:
            return

        async def work(session: AsyncSession) -> UUID:
            plan = Plan(alias, number, weight, 5, 300, 20)
            return (await service.start(session, self.principal, NAME, plan)).id

        if self.points_at[alias] == number:
            with pytest.raises(SameVersion):
                self.registry.mine(work)
        elif number not in self.callable:
            with pytest.raises(VersionNotCallable):
                self.registry.mine(work)
        else:
            self.rollouts[alias] = (self.registry.mine(work), number)

    @precondition(lambda self: self.rollouts)
    @rule(alias=alias_names, promotes=st.booleans())
    def end_rollout(self, alias: str, promotes: bool) -> None:
        if alias not in self.rollouts:
            return
        rollout_id, candidate = self.rollouts[alias]

        async def work(session: AsyncSession) -> str:
            end = service.promote if promotes else service.roll_back
            return (await end(session, self.principal, NAME, rollout_id)).status

        if promotes and candidate not in self.callable:
            with pytest.raises(VersionNotCallable):
                self.registry.mine(work)
            return
        ended = RolloutStatus.PROMOTED if promotes else RolloutStatus.ROLLED_BACK
        assert self.registry.mine(work) == self.registry.mine(work) == ended
        del self.rollouts[alias]
        if promotes:
            self.moved(alias, candidate)

    @rule(pick=picks)
    def delete(self, pick: int) -> None:
        number = self.version(pick)
        if number in self.purged:
            return
        named = {*self.points_at.values(), *(number for _, number in self.rollouts.values())}

        async def work(session: AsyncSession) -> None:
            await removal.delete_version(session, self.principal, NAME, number)

        if number in named and number not in self.deleted:
            with pytest.raises(VersionInUse):
                self.registry.mine(work)
        else:
            self.registry.mine(work)
            self.deleted.add(number)

    @precondition(lambda self: self.deleted - self.purged)
    @rule(pick=picks)
    def restore(self, pick: int) -> None:
        deleted = sorted(self.deleted - self.purged)
        number = deleted[pick % len(deleted)]

        async def work(session: AsyncSession) -> None:
            await removal.restore_version(session, self.principal, NAME, number)

        self.registry.mine(work)
        self.deleted.discard(number)

    @rule(pick=picks, releases=st.booleans())
    def quarantine(self, pick: int, releases: bool) -> None:
        number = self.version(pick)
        if number in self.purged:
            return

        async def work(session: AsyncSession) -> None:
            tenant = await session.get_one(Tenant, self.principal.tenant_id)
            if releases:
                await quarantine.release(session, TESTER, tenant, NAME, number)
            else:
                await quarantine.quarantine(session, TESTER, tenant, NAME, number, "smells")

        self.registry.in_system(work)
        (self.quarantined.discard if releases else self.quarantined.add)(number)

    @rule()
    def purge(self) -> None:
        self.registry.in_system(lambda session: removal.purge(session, NOTHING))
        self.purged |= self.deleted

    @rule(pick=picks)
    def run_a_request(self, pick: int) -> None:
        """A request begins: its bytes stay even if its version goes."""
        number = self.version(pick)
        if number not in self.callable:
            return
        digest = digest_of_bytes(self.content[number])

        async def work(session: AsyncSession) -> None:
            session.add(
                Reservation(
                    tenant_id=self.principal.tenant_id,
                    request_id=uuid4().hex,
                    gateway_id="g",
                    api_key_id=self.principal.key_id,
                    weights_digest=digest,
                    expires_at=datetime.now(UTC) + timedelta(hours=1),
                )
            )

        self.registry.in_system(work)
        self.running.add(digest)

    @rule()
    def collect(self) -> None:
        collector = Collector(self.registry.system, self.registry.store, NOTHING)
        self.registry.runner.run(collector.collect())

    @invariant()
    def names_mean_what_they_should(self) -> None:
        if not hasattr(self, "registry"):
            return
        for number in self.content:
            expected = number if number in self.callable else None
            assert self.registry.called(f"{NAME}:v{number}") == expected
        for alias, number in self.points_at.items():
            if alias not in self.rollouts:
                expected = number if number in self.callable else None
                assert self.registry.called(f"{NAME}:{alias}") == expected
            elif (served := self.registry.called(f"{NAME}:{alias}")) is not None:
                assert served in self.callable & {number, self.rollouts[alias][1]}
        if "prod" not in self.points_at:
            newest = max(self.callable, default=None)
            assert self.registry.called(NAME) == self.registry.called(f"{NAME}:latest") == newest

    @invariant()
    def generations_only_grow_and_no_alias_points_at_what_was_purged(self) -> None:
        if not hasattr(self, "registry"):
            return

        async def work(session: AsyncSession) -> dict[str, tuple[int | None, int]]:
            rows = await session.scalars(select(Alias))
            return {row.name: (row.version, row.generation) for row in rows}

        found = self.registry.mine(work)
        assert found == {
            alias: (self.points_at.get(alias), generation)
            for alias, generation in self.generation.items()
        }
        assert not {version for version, _ in found.values()} & self.purged

    @invariant()
    def no_bytes_in_use_are_collected(self) -> None:
        if not hasattr(self, "registry"):
            return
        kept = {digest_of_bytes(self.content[n]) for n in set(self.content) - self.purged}
        for digest in kept | self.running:
            assert self.registry.store.exists(blob_key(self.principal.namespace, digest))

    @rule()
    def what_nobody_uses_is_gone_after_a_collection(self) -> None:
        self.collect()
        kept = {digest_of_bytes(self.content[n]) for n in set(self.content) - self.purged}
        for content in self.content.values():
            digest = digest_of_bytes(content)
            is_there = self.registry.store.exists(blob_key(self.principal.namespace, digest))
            assert is_there == (digest in kept | self.running)


def test_the_registry_keeps_its_word_whatever_is_done_in_whatever_order(
    services: Settings,
) -> None:
    machine = type("Machine", (RegistryMachine,), {"services": services})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(4, 300),
            stateful_step_count=examples(14, 40),
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
