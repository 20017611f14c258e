"""Passwords: argon2id beside the event loop, few at once, as slow for nobody as for somebody."""

import asyncio
import secrets
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from loraplex.platform.people.errors import (
    LONGEST_PASSWORD,
    SHORTEST_PASSWORD,
    LoginsBusy,
    WeakPassword,
)

P = ParamSpec("P")
R = TypeVar("R")

TIME_COST, MEMORY_KIBIBYTES, LANES = 3, 64 * 1024, 1
"""RFC 9106's second choice, on one core: about a tenth of a second. A change is applied to each
password at its next good login."""
AT_ONCE = 2
"""What a gateway may spend on logins: so many cores, and 64 MiB each."""
WAITING = 32


def check_new_password(password: str, email: str, *, field: str = "password") -> None:
    """Raise WeakPassword for one that is too short, too long, or the address itself."""
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise WeakPassword(f"{SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters", field)
    if password.casefold() in (email.casefold(), email.partition("@")[0].casefold()):
        raise WeakPassword("nothing to do with your e-mail address", field)
    if len(set(password)) < 4:
        raise WeakPassword("at least 4 different characters", field)


class Passwords:
    """One process's hashing of passwords."""

    def __init__(
        self,
        *,
        time_cost: int = TIME_COST,
        memory_kibibytes: int = MEMORY_KIBIBYTES,
        at_once: int = AT_ONCE,
        waiting: int = WAITING,
    ) -> None:
        self._hasher = PasswordHasher(time_cost, memory_kibibytes, LANES)
        self._slots = asyncio.Semaphore(at_once)
        self._room = at_once + waiting
        # Whose hash it is does not matter; only that checking it takes as long as anybody's.
        self._nobodys = self._hasher.hash(secrets.token_hex())

    async def hash(self, password: str) -> str:
        """The password's hash, salted, with its parameters; raises LoginsBusy."""
        return await self._run(self._hasher.hash, password)

    async def matches(self, known_hash: str | None, password: str) -> bool:
        """Whether the hash is the password's. With None it takes as long and is False.

        Raises LoginsBusy.
        """
        return await self._run(self._verify, known_hash, password)

    def is_outdated(self, known_hash: str) -> bool:
        """Whether the hash was made with other parameters than today's."""
        return self._hasher.check_needs_rehash(known_hash)

    def _verify(self, known_hash: str | None, password: str) -> bool:
        try:
            matches = self._hasher.verify(known_hash or self._nobodys, password)
        except (VerificationError, InvalidHashError):
            return False
        return matches and known_hash is not None

    async def _run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        if self._room == 0:
            raise LoginsBusy
        self._room -= 1
        try:
            async with self._slots:
                return await asyncio.to_thread(work, *args, **kwargs)
        finally:
            self._room += 1
