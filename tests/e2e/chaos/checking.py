"""Whether every bill is exact: the ledger against what workers wrote down and clients saw."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.metering.sequences import CallUsage, SequenceUsage, total
from tests.e2e.chaos.clients import Seen

MARGIN = timedelta(seconds=1.5)
"""A worker that ended so near to a settlement may have told of its counts, or not."""


@dataclass(frozen=True)
class Written:
    """The last that one worker process wrote of a sequence."""

    process_id: int
    attempt: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


Journals = Mapping[str, Mapping[int, Sequence[Written]]]
"""By request and place of the sequence: what each process wrote of it last."""


def read_journals(folder: Path) -> Journals:
    """A line that a kill cut short is left out: it never left the worker."""
    found: dict[str, dict[int, dict[int, Written]]] = {}
    for file in folder.iterdir():
        process_id = int(file.stem)
        for line in file.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):
                continue
            name, *numbers = line.split()
            request_id, place = name.rsplit("-", 1)
            written = Written(process_id, *map(int, numbers))
            found.setdefault(request_id, {}).setdefault(int(place), {})[process_id] = written
    return {
        request_id: {place: list(written.values()) for place, written in sorted(places.items())}
        for request_id, places in found.items()
    }


def generated(places: Mapping[int, Sequence[Written]], choices: int) -> CallUsage:
    """What a request used by the latest attempt of each sequence."""
    latest = {place: max(all_of, key=lambda one: one.attempt) for place, all_of in places.items()}
    return total(
        SequenceUsage(place // choices, one.prompt_tokens, one.cached_tokens, one.output_tokens)
        for place, one in sorted(latest.items())
    )


@dataclass(frozen=True)
class Evidence:
    """All that is known after the storm."""

    seen: Sequence[Seen]
    rows: Sequence[LedgerEntry]
    journals: Journals
    worker_ends: Mapping[int, datetime]

    def problems(self) -> list[str]:
        """Every bill that is not exact, explained."""
        rows = {row.request_id: row for row in self.rows}
        seen = {one.request_id: one for one in self.seen if one.request_id is not None}
        found = [
            f"{request_id} ran and has no ledger row: {self._history(request_id)}"
            for request_id in self.journals.keys() | seen.keys()
            if request_id not in rows
        ]
        for request_id, row in rows.items():
            for problem in self._problems_of(row, seen.get(request_id)):
                found.append(f"{request_id}: {problem}; {_told(row)}; {self._history(request_id)}")
        if len(rows) > len(self.seen):
            found.append(f"{len(self.seen)} requests have {len(rows)} ledger rows")
        for one in self.seen:
            found += [
                f"{_client(one)} was answered anew" for again in one.again if _is_new(one, *again)
            ]
        return found

    def _problems_of(self, row: LedgerEntry, seen: Seen | None) -> Iterable[str]:
        places = self.journals.get(row.request_id, {})
        if row.cached_tokens > row.prompt_tokens:
            yield "more cached tokens than the prompt has"
        if row.settled_by == "recovery":
            if not self._is_what_workers_knew(row, places):
                yield "recovered otherwise than the workers counted"
        elif row.output_tokens > sum(
            max(one.output_tokens for one in written) for written in places.values()
        ):
            yield "billed more than was generated"
        if seen is None:
            return
        if seen.tokens > row.output_tokens and row.outcome != "lost":
            yield f"its client was shown {seen.tokens} tokens"
        if seen.is_whole:
            yield from self._problems_of_whole(row, seen, places)

    def _problems_of_whole(
        self, row: LedgerEntry, seen: Seen, places: Mapping[int, Sequence[Written]]
    ) -> Iterable[str]:
        if row.outcome == "lost":  # its gateway died before it could settle, and so did its worker
            return
        usage = seen.usage
        if usage is None:
            yield "its answer tells no usage"
            return
        told = CallUsage(
            usage["prompt_tokens"],
            usage["prompt_tokens_details"]["cached_tokens"],
            usage["completion_tokens"],
        )
        billed = CallUsage(row.prompt_tokens, row.cached_tokens, row.output_tokens)
        if row.settled_by == "gateway" and (told != billed or row.outcome != "completed"):
            yield f"its client was told {told}"
        choices = int(seen.planned.body["n"])
        if not seen.planned.may_stop and generated(places, choices) != told:
            yield f"its workers generated {generated(places, choices)}"

    def _is_what_workers_knew(
        self, row: LedgerEntry, places: Mapping[int, Sequence[Written]]
    ) -> bool:
        """Of each worker that ended near the settlement it may have been known, or not."""
        known: dict[int, list[Written]] = {}
        doubtful: list[tuple[int, Written]] = []
        for place, all_of in places.items():
            for one in all_of:
                ended_at = self.worker_ends.get(one.process_id)
                if ended_at is None or ended_at > row.created_at + MARGIN:
                    known.setdefault(place, []).append(one)
                elif ended_at > row.created_at - MARGIN:
                    doubtful.append((place, one))
        billed = CallUsage(row.prompt_tokens, row.cached_tokens, row.output_tokens)
        candidates = [known]
        for place, one in doubtful:
            candidates += [
                {**each, place: [*each.get(place, []), one]} for each in list(candidates)
            ]
        return any(
            generated(each, choices).billed == billed
            for each in candidates
            for choices in (1, 2, 3)
        )

    def _history(self, request_id: str) -> str:
        clients = [_client(one) for one in self.seen if one.request_id == request_id]
        ends = {
            one.process_id: str(self.worker_ends[one.process_id])
            for written in self.journals.get(request_id, {}).values()
            for one in written
            if one.process_id in self.worker_ends
        }
        return f"journals {self.journals.get(request_id)}; workers' ends {ends}; client {clients}"


def _is_new(seen: Seen, status: int, content: bytes) -> bool:
    lines = content.decode().splitlines() if seen.planned.is_stream else [content.decode()]
    first = (
        seen.content.decode().splitlines() if seen.planned.is_stream else [seen.content.decode()]
    )
    return status == 200 and lines != first


def _told(row: LedgerEntry) -> str:
    return (
        f"billed {row.prompt_tokens}/{row.cached_tokens}/{row.output_tokens} {row.outcome} "
        f"{row.error_code} by {row.settled_by} at {row.created_at}"
    )


def _client(seen: Seen) -> str:
    planned = seen.planned
    kept = {name: value for name, value in planned.body.items() if name != "model"}
    return (
        f"#{planned.number} {planned.path} {kept} leaves after {planned.hang_up_after}: "
        f"{seen.status} {seen.error} shown {seen.tokens} usage {seen.usage}"
    )
