"""Fetches the two files of a source to a local folder, and says what was wrong where it cannot."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from loraplex.adapters_registry.imports.errors import (
    ImportTimedOut,
    SourceDiffers,
    SourceForbidden,
    SourceNotFound,
    SourceRefused,
    SourceTooLarge,
    SourceUnavailable,
)
from loraplex.adapters_registry.imports.places import Place, place_of, reason_in
from loraplex.adapters_registry.imports.sources import (
    ARCHIVE_FILE,
    CONFIG_FILE,
    WEIGHTS_FILE,
    HubSource,
    Source,
)
from loraplex.adapters_registry.peft_config import MAX_CONFIG_BYTES
from loraplex.adapters_registry.uploads.archives import expand
from loraplex.platform.outbound.client import Answer, OutboundClient, Saved
from loraplex.platform.outbound.errors import AnswerTooLarge, AnswerTooSlow

MAX_REDIRECTS = 5
REASON_BYTES = 4096
LATER = frozenset({408, 425, 429})
_SHA256: Final = re.compile(r'"?([0-9a-f]{64})"?')
_COMMIT: Final = re.compile(r"[0-9a-f]{40,64}")

Reserve = Callable[[int], Awaitable[None]]
"""Sets so many bytes aside before they are read; may refuse."""


@dataclass
class Progress:
    """How many bytes have come in; read from outside while the fetching goes on."""

    folder: Path
    names: tuple[str, ...] = field(default=(CONFIG_FILE, WEIGHTS_FILE, ARCHIVE_FILE))

    def fetched_bytes(self) -> int:
        files = (self.folder / name for name in self.names)
        return sum(file.stat().st_size for file in files if file.exists())


@dataclass(frozen=True)
class SourceFetcher:
    """Reads sources within limits. `seconds` is for both files together."""

    client: OutboundClient
    hub_url: str
    seconds: float
    max_weights_bytes: int
    max_config_bytes: int = MAX_CONFIG_BYTES

    async def fetch(self, source: Source, folder: Path, reserve: Reserve) -> None:
        """Write both files into the folder, the small one first.

        `reserve` is asked before the large one is read, with the bytes of both: those that the
        source announces, or the most that are accepted where it does not.
        An archive is fetched, then expanded by the rules for uploaded ones.
        Raises the errors of `imports.errors`, those of `outbound.errors`, and what `reserve` and
        `expand` do.
        """
        try:
            async with asyncio.timeout(self.seconds):
                await self._fetch(source, folder, reserve)
        except TimeoutError:
            raise ImportTimedOut(self.seconds) from None
        except AnswerTooSlow:
            raise ImportTimedOut(self.seconds) from None

    async def _fetch(self, source: Source, folder: Path, reserve: Reserve) -> None:
        if source.file_names == (ARCHIVE_FILE,):
            await self._fetch_last(source, ARCHIVE_FILE, folder, 0, reserve)
            limits = {CONFIG_FILE: self.max_config_bytes, WEIGHTS_FILE: self.max_weights_bytes}
            await asyncio.to_thread(expand, folder / ARCHIVE_FILE, folder, limits)
            await asyncio.to_thread((folder / ARCHIVE_FILE).unlink)
            return
        async with self._opened(source, CONFIG_FILE) as (place, answer):
            config = await self._save(place, answer, folder / CONFIG_FILE, self.max_config_bytes)
            commit = answer.hops[0].headers.get("x-repo-commit", "")
            if isinstance(source, HubSource) and _COMMIT.fullmatch(commit):
                # Both files from one commit, even if the branch moves in between.
                source = msgspec.structs.replace(source, revision=commit)
        await self._fetch_last(source, WEIGHTS_FILE, folder, config.size_bytes, reserve)

    async def _fetch_last(
        self, source: Source, name: str, folder: Path, more_bytes: int, reserve: Reserve
    ) -> None:
        """Fetch a large file; `more_bytes` are reserved with its own."""
        limit_bytes = self.max_weights_bytes
        async with self._opened(source, name) as (place, answer):
            announced = answer.headers.get("content-length", "")
            size_bytes = int(announced) if announced.isdecimal() else limit_bytes
            if size_bytes > limit_bytes:
                raise SourceTooLarge(place.what, limit_bytes)
            await reserve(more_bytes + size_bytes)
            await self._save(place, answer, folder / name, limit_bytes)

    @asynccontextmanager
    async def _opened(self, source: Source, name: str) -> AsyncIterator[tuple[Place, Answer]]:
        """A file's answer of status 200; any other status is raised as what it means."""
        place = await asyncio.to_thread(place_of, source, name, self.hub_url)
        async with self.client.call(
            "GET",
            place.url,
            seconds=self.seconds,
            credentials=place.credentials,
            redirects=MAX_REDIRECTS,
        ) as answer:
            if answer.status != 200:
                reason = reason_in(source, answer.headers, await answer.head(REASON_BYTES))
                raise refusal_of(place.what, answer.status, reason)
            yield place, answer

    async def _save(self, place: Place, answer: Answer, path: Path, limit_bytes: int) -> Saved:
        with path.open("xb") as file:
            try:
                saved = await answer.save(file, limit_bytes)
            except AnswerTooLarge:
                raise SourceTooLarge(place.what, limit_bytes) from None
        announced = announced_sha256(answer)
        if announced is not None and saved.digest != f"sha256:{announced}":
            raise SourceDiffers(place.what)
        return saved


def announced_sha256(answer: Answer) -> str | None:
    """What the hub says a large file's digest is; it does so where it sends us on to the bytes."""
    found = _SHA256.fullmatch(answer.hops[0].headers.get("x-linked-etag", ""))
    return None if found is None else found[1]


def refusal_of(
    what: str, status: int, reason: str
) -> SourceNotFound | SourceForbidden | SourceRefused | SourceUnavailable:
    why = f"it answered {status} ({reason})" if reason else f"it answered {status}"
    if status in (404, 410):
        return SourceNotFound(what, why)
    if status in (401, 403):
        return SourceForbidden(what, why)
    if status >= 500 or status in LATER:
        return SourceUnavailable(what, status)
    return SourceRefused(what, why)
