"""A cache of credentials never says what has not been true within its five seconds."""

import asyncio
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from loraplex.platform.database.changes import MAX_CACHE_SECONDS, Changes
from loraplex.platform.database.sessions import Database
from loraplex.platform.tenancy.credential_cache import CACHE_SECONDS, CredentialCache
from loraplex.platform.tenancy.credentials import Credential, CredentialState
from loraplex.platform.tenancy.principals import OperatorPrincipal, OperatorRole

TABLES = ("api_keys", "tenants")
UNUSED = Database("postgresql://nobody@192.0.2.1/none")


def made(state: CredentialState = CredentialState.LIVE, *rows: UUID) -> Credential:
    principal = OperatorPrincipal(uuid4(), None, "one", OperatorRole.ADMIN)
    return Credential(state, principal, None, None, frozenset(rows))


class Asked:
    """A source of one answer, which counts how often it is asked."""

    def __init__(self, credential: Credential | None) -> None:
        self.credential = credential
        self.times = 0

    async def __call__(self) -> Credential | None:
        self.times += 1
        return self.credential


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def cache_of(clock: Clock, *, max_live: int = 10, max_refused: int = 10) -> CredentialCache:
    return CredentialCache(
        Changes(UNUSED), TABLES, max_live=max_live, max_refused=max_refused, monotonic=clock
    )


async def test_without_changes_to_hear_of_nothing_is_remembered() -> None:
    cache, source = CredentialCache(None, TABLES), Asked(made())
    await cache.find(b"1", source)
    await cache.find(b"1", source)
    assert source.times == 2


@pytest.mark.parametrize("credential", [made(), made(CredentialState.REVOKED), None])
async def test_an_answer_lasts_for_seconds_and_no_longer(credential: Credential | None) -> None:
    clock, source = Clock(), Asked(credential)
    cache = cache_of(clock)
    assert await cache.find(b"1", source) is credential
    clock.now = CACHE_SECONDS - 0.01
    assert await cache.find(b"1", source) is credential
    assert source.times == 1
    clock.now = CACHE_SECONDS
    await cache.find(b"1", source)
    assert source.times == 2


async def test_a_credential_is_asked_for_again_when_it_expires() -> None:
    clock, source = Clock(), Asked(replace(made(), seconds_left=1.5))
    cache = cache_of(clock)
    await cache.find(b"1", source)
    clock.now = 1.5
    source.credential = made(CredentialState.EXPIRED)
    found = await cache.find(b"1", source)
    assert found is not None
    assert not found.is_live


async def test_every_row_it_hangs_on_ends_an_answer() -> None:
    rows = [uuid4(), uuid4(), uuid4()]
    source = Asked(made(CredentialState.LIVE, *rows))
    cache = cache_of(Clock())
    for times, row in enumerate(rows, start=1):
        await cache.find(b"1", source)
        assert source.times == times
        cache.forget(uuid4())
        await cache.find(b"1", source)
        assert source.times == times
        cache.forget(row)


async def test_a_disabled_key_is_known_to_be_enabled_again() -> None:
    row = uuid4()
    source = Asked(made(CredentialState.DISABLED, row))
    cache = cache_of(Clock())
    await cache.find(b"1", source)
    source.credential = made(CredentialState.LIVE, row)
    cache.forget(row)
    assert await cache.find(b"1", source) is source.credential


async def test_what_changes_while_it_is_read_is_not_remembered() -> None:
    cache = cache_of(Clock())
    reading, may_end = asyncio.Event(), asyncio.Event()
    old, source = made(), Asked(made(CredentialState.REVOKED))

    async def slow() -> Credential:
        reading.set()
        await may_end.wait()
        return old

    first = asyncio.create_task(cache.find(b"1", slow))
    await reading.wait()
    cache.forget(uuid4())
    may_end.set()
    assert await first is old
    assert await cache.find(b"1", source) is source.credential


async def test_guesses_push_out_no_live_key_and_are_bounded_themselves() -> None:
    cache = cache_of(Clock(), max_live=2, max_refused=3)
    good = Asked(made())
    await cache.find(b"good", good)
    guesses = [Asked(None) for _ in range(50)]
    for number, guess in enumerate(guesses):
        await cache.find(f"guess {number}".encode(), guess)
    await cache.find(b"good", good)
    assert good.times == 1
    for number, guess in enumerate(guesses):
        await cache.find(f"guess {number}".encode(), guess)
    assert sum(guess.times for guess in guesses) > 50 + 40


async def test_of_more_live_keys_than_fit_the_least_recently_used_goes() -> None:
    cache = cache_of(Clock(), max_live=2)
    sources = [Asked(made(CredentialState.LIVE, uuid4())) for _ in range(3)]
    for digest in (0, 1, 0, 2, 0, 1):
        await cache.find(bytes([digest]), sources[digest])
    assert [source.times for source in sources] == [1, 2, 1]


class CacheMachine(RuleBasedStateMachine):
    """Rows change, with and without anybody being told; two caches are asked of them."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.caches = [cache_of(self.clock, max_live=3, max_refused=2) for _ in range(2)]
        self.rows = [uuid4() for _ in range(5)]
        self.truth = [self.version(row, CredentialState.LIVE) for row in self.rows]
        self.untold_since: list[float | None] = [None] * len(self.rows)
        self.was: list[list[tuple[float, Credential]]] = [[] for _ in self.rows]

    @staticmethod
    def version(row: UUID, state: CredentialState) -> Credential:
        return made(state, row)

    @rule(key=st.integers(0, 4), state=st.sampled_from(list(CredentialState)), told=st.booleans())
    def change(self, key: int, state: CredentialState, told: bool) -> None:
        self.was[key].append((self.clock.now, self.truth[key]))
        self.truth[key] = self.version(self.rows[key], state)
        if told:
            self.was[key].clear()
            for cache in self.caches:
                cache.forget(self.rows[key])

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.9, 5.0]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule()
    def lose_the_connection(self) -> None:
        for cache in self.caches:
            cache.forget(None)
        for was in self.was:
            was.clear()

    @rule(key=st.integers(0, 4), which=st.integers(0, 1))
    def ask(self, key: int, which: int) -> None:
        async def load() -> Credential:
            return self.truth[key]

        found = asyncio.run(self.caches[which].find(bytes([key]), load))
        horizon = self.clock.now - MAX_CACHE_SECONDS
        recent = [credential for ended_at, credential in self.was[key] if ended_at > horizon]
        assert found in [self.truth[key], *recent]

    @invariant()
    def nothing_grows(self) -> None:
        for cache in self.caches:
            assert len(cache._live._answers) <= 3
            assert len(cache._refused._answers) <= 2
            for answers in (cache._live, cache._refused):
                held = {row for one in answers._answers.values() for row in one.credential.rows}  # type: ignore[union-attr]
                assert set(answers._by_row) == held


TestCredentialCache = CacheMachine.TestCase
