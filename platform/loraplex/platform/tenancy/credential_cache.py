"""Remembers for seconds what Postgres said of credentials, by their hashes.

What is remembered goes as soon as a row it hangs on changes, whenever listening for changes begins
or ends, when the credential expires, and after CACHE_SECONDS in any case. That age counts from when
the question was asked, so a change that overtakes its own answer is missed no longer either.
"""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from loraplex.platform.database.changes import MAX_CACHE_SECONDS, Changes
from loraplex.platform.tenancy.credentials import Credential

CACHE_SECONDS = MAX_CACHE_SECONDS - 1
"""A request that is being refused takes its time too: within five seconds it is."""
MAX_LIVE = 10_000
MAX_REFUSED = 2_000
"""Apart from the live ones, so that whoever guesses pushes out nobody's key."""

Load = Callable[[], Awaitable[Credential | None]]


@dataclass(frozen=True, slots=True)
class _Answer:
    credential: Credential | None
    fresh_until: float


class CredentialCache:
    """One kind of credentials in one process. Without `changes` nothing is remembered."""

    def __init__(
        self,
        changes: Changes | None,
        tables: Sequence[str],
        *,
        max_live: int = MAX_LIVE,
        max_refused: int = MAX_REFUSED,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`tables` are those whose rows a credential may hang on."""
        self._live = _Answers(max_live)
        self._refused = _Answers(max_refused)
        self._monotonic = monotonic
        self._changes_seen = 0
        self._is_on = changes is not None
        if changes is not None:
            for table in tables:
                changes.watch(table, self.forget)

    async def find(self, digest: bytes, load: Load) -> Credential | None:
        """What `load` gives for this hash, or gave a moment ago. Raises what it raises."""
        answer = self._live.get(digest) or self._refused.get(digest)
        begun = self._monotonic()
        if answer is not None and begun < answer.fresh_until:
            return answer.credential
        changes_seen = self._changes_seen
        credential = await load()
        # What changed meanwhile may be what was just read.
        if self._is_on and changes_seen == self._changes_seen:
            self._remember(digest, credential, begun)
        return credential

    def forget(self, row_id: UUID | None) -> None:
        """Forget what hangs on this row; None forgets everything."""
        self._changes_seen += 1
        for answers in (self._live, self._refused):
            answers.forget(row_id)

    def _remember(self, digest: bytes, credential: Credential | None, begun: float) -> None:
        is_live = credential is not None and credential.is_live
        seconds = CACHE_SECONDS
        if is_live and credential is not None and credential.seconds_left is not None:
            seconds = min(seconds, credential.seconds_left)
        kept, other = (self._live, self._refused) if is_live else (self._refused, self._live)
        other.drop(digest)
        kept.put(digest, _Answer(credential, begun + seconds))


class _Answers:
    """The most recently used answers, found by hash and by the rows they hang on."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._answers: OrderedDict[bytes, _Answer] = OrderedDict()
        self._by_row: dict[UUID, set[bytes]] = {}

    def get(self, digest: bytes) -> _Answer | None:
        answer = self._answers.get(digest)
        if answer is not None:
            self._answers.move_to_end(digest)
        return answer

    def put(self, digest: bytes, answer: _Answer) -> None:
        self.drop(digest)
        self._answers[digest] = answer
        for row in _rows(answer):
            self._by_row.setdefault(row, set()).add(digest)
        if len(self._answers) > self._limit:
            self.drop(next(iter(self._answers)))

    def drop(self, digest: bytes) -> None:
        answer = self._answers.pop(digest, None)
        for row in () if answer is None else _rows(answer):
            hanging = self._by_row[row]
            hanging.discard(digest)
            if not hanging:
                del self._by_row[row]

    def forget(self, row_id: UUID | None) -> None:
        if row_id is None:
            self._answers.clear()
            self._by_row.clear()
            return
        for digest in tuple(self._by_row.get(row_id, ())):
            self.drop(digest)


def _rows(answer: _Answer) -> frozenset[UUID]:
    return frozenset() if answer.credential is None else answer.credential.rows
