import asyncio
import time
from statistics import median

import pytest

from loraplex.platform.people.errors import LoginsBusy, WeakPassword
from loraplex.platform.people.passwords import Passwords, check_new_password

PASSWORD = "correct horse battery"


async def test_a_password_is_kept_as_argon2id_with_its_parameters() -> None:
    passwords = Passwords()
    kept = await passwords.hash(PASSWORD)
    assert kept.startswith("$argon2id$v=19$m=65536,t=3,p=1$")
    assert await passwords.matches(kept, PASSWORD)
    assert not await passwords.matches(kept, PASSWORD + "!")
    assert not passwords.is_outdated(kept)


async def test_nobodys_password_matches_nothing() -> None:
    passwords = Passwords(time_cost=1, memory_kibibytes=8)
    assert not await passwords.matches(None, PASSWORD)
    assert not await passwords.matches("no hash at all", PASSWORD)


async def test_other_parameters_are_told_apart() -> None:
    kept = await Passwords(time_cost=1, memory_kibibytes=8).hash(PASSWORD)
    assert Passwords(time_cost=2, memory_kibibytes=8).is_outdated(kept)


async def test_nobody_takes_as_long_to_refuse_as_somebody() -> None:
    passwords = Passwords()
    kept = await passwords.hash(PASSWORD)

    async def seconds(known: str | None) -> float:
        begun = time.perf_counter()
        await passwords.matches(known, "wrong")
        return time.perf_counter() - begun

    pairs = [(await seconds(kept), await seconds(None)) for _ in range(5)]
    ratio = median(nobody for _, nobody in pairs) / median(somebody for somebody, _ in pairs)
    assert 0.5 < ratio < 2


async def test_more_than_may_wait_are_refused_and_the_loop_runs_on() -> None:
    passwords = Passwords(time_cost=1, memory_kibibytes=8, at_once=1, waiting=2)
    answers = await asyncio.gather(
        *(passwords.hash(PASSWORD) for _ in range(5)), return_exceptions=True
    )
    assert sum(isinstance(answer, str) for answer in answers) == 3
    assert sum(isinstance(answer, LoginsBusy) for answer in answers) == 2
    assert await passwords.hash(PASSWORD)  # there is room again


@pytest.mark.parametrize(
    "password", ["short", "a" * 1025, "aaaaaaaaaaaaa", "ada.lovelace@example.com", "ADA.LOVELACE"]
)
def test_what_would_be_guessed_is_no_password(password: str) -> None:
    with pytest.raises(WeakPassword):
        check_new_password(password, "ada.lovelace@example.com")
