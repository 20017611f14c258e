"""Asking a worker what became of requests: questions that wait for their answers."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from loraplex.engine.protocol.generation import FinalCounts
from loraplex.engine.protocol.messages import Recounted


@dataclass(slots=True)
class Placement:
    """Which workers a request was given to, the last of them last."""

    worker_ids: list[str] = field(default_factory=list)

    @property
    def last_worker_id(self) -> str | None:
        """Who served it, or was to; None where there was no worker."""
        return self.worker_ids[-1] if self.worker_ids else None


@dataclass(frozen=True, slots=True)
class Recount:
    """What a base's workers know of some requests, each by its id.

    `is_complete` says that every worker which could know was asked and has answered.
    """

    ended: dict[str, FinalCounts]
    running: frozenset[str]
    is_complete: bool


def combine(answers: Iterable[Recounted | None]) -> Recount:
    """One picture of all workers' answers; None is of one that did not answer.

    What two workers had counts as the later one used it: the first was lost before any output of
    it was passed on.
    """
    ended: dict[str, FinalCounts] = {}
    running: set[str] = set()
    is_complete = True
    for answer in answers:
        if answer is None:
            is_complete = False
            continue
        running.update(answer.running)
        for counts in answer.ended:
            other = ended.get(counts.request_id)
            if other is None or other.attempt < counts.attempt:
                ended[counts.request_id] = counts
    return Recount(ended, frozenset(running), is_complete)


class Questions:
    """One connection's questions under way, by number."""

    def __init__(self) -> None:
        self._asked = 0
        self._waiting: dict[int, asyncio.Future[Recounted]] = {}

    def ask(self) -> tuple[int, "asyncio.Future[Recounted]"]:
        """A number of a new question, and what its answer will come to."""
        self._asked += 1
        number = self._asked
        answer: asyncio.Future[Recounted] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        answer.add_done_callback(lambda _: self._waiting.pop(number, None))
        return number, answer

    def answer(self, recounted: Recounted) -> None:
        """Give whoever asked what came back; nobody may wait any more."""
        future = self._waiting.get(recounted.question)
        if future is not None and not future.done():
            future.set_result(recounted)
