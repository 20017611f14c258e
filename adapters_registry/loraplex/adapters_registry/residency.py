"""Adapter files on this machine's disk: fetched once, verified at every use, kept in a budget.

Runs beside the engine. Knows digests, opaque namespaces and presigned URLs; no database, no
credentials, no tensors. The directory is the whole state: workers of one machine may share it, and
a restart finds what is there.
"""

import os
import re
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from loraplex.adapters_registry.blob_fetch import FetchFailed, fetch_blob
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import AdapterUnavailable
from loraplex.engine.protocol.identity import digest_of_file

SUFFIX = ".safetensors"
PARTIAL_SUFFIX = ".partial"
CORRUPT_SUFFIX = ".corrupt"
HOLD_SECONDS = 60.0
"""A file handed out stays for at least this long: time enough to load it."""
ABANDONED_SECONDS = 3600.0
"""A partial file nobody has written to for so long belongs to a process that died."""

SAFE_PART = re.compile(r"[A-Za-z0-9_-]{1,128}")
DIGEST = re.compile(r"sha256:(?P<hex>[0-9a-f]{64})")


class NodeCache:
    """An AdapterSource over a directory. All methods may be called from many threads."""

    def __init__(
        self, cache_dir: Path, budget_bytes: int, *, hold_seconds: float = HOLD_SECONDS
    ) -> None:
        """`budget_bytes` is exceeded only by files handed out less than `hold_seconds` ago."""
        self.cache_dir = cache_dir
        self.budget_bytes = budget_bytes
        self.hold_seconds = hold_seconds
        self._lock = threading.Lock()
        self._flights: dict[Path, Future[Path]] = {}
        cache_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._remove_abandoned()

    def fetch(self, ref: AdapterRef) -> Path:
        """A verified local safetensors file of the adapter; blocks while it is fetched.

        Whoever asks for a file that is being fetched waits for that fetch; should it fail, each
        tries once more with the URL of its own. Raises AdapterUnavailable.
        """
        target = self._path(ref)
        flight, is_ours = self._board(target)
        if not is_ours:
            with suppress(AdapterUnavailable):
                return flight.result()
            flight, is_ours = self._board(target)
            if not is_ours:
                return flight.result()
        try:
            path = self._verified(ref, target)
        except BaseException as error:
            self._land(target).set_exception(error)
            raise
        self._land(target).set_result(path)
        return path

    def _board(self, target: Path) -> tuple[Future[Path], bool]:
        with self._lock:
            flight = self._flights.get(target)
            if flight is not None:
                return flight, False
            flight = self._flights[target] = Future()
            return flight, True

    def _land(self, target: Path) -> Future[Path]:
        with self._lock:
            return self._flights.pop(target)

    def _path(self, ref: AdapterRef) -> Path:
        digest = DIGEST.fullmatch(ref.spec.weights_digest)
        if digest is None or not SAFE_PART.fullmatch(ref.namespace):
            raise AdapterUnavailable("The adapter's digest or namespace is malformed.")
        return self.cache_dir / ref.namespace / f"{digest['hex']}{SUFFIX}"

    def _verified(self, ref: AdapterRef, target: Path) -> Path:
        try:
            if self._is_intact(ref, target):
                return target
            target.parent.mkdir(exist_ok=True, mode=0o700)
            self._fetch_into(ref, target)
        except FetchFailed as failed:
            raise AdapterUnavailable(f"The adapter's weights cannot be had: {failed}.") from failed
        except OSError as error:
            raise AdapterUnavailable(
                f"The adapter's weights cannot be kept on this machine: {error.strerror}."
            ) from error
        self._evict(keep=target)
        return target

    def _is_intact(self, ref: AdapterRef, target: Path) -> bool:
        """Whether the file is there with the right bytes; wrong bytes are put aside."""
        try:
            # First of all, so that no other worker evicts it while it is being checked.
            os.utime(target)
            if digest_of_file(target) == ref.spec.weights_digest:
                return True
            target.replace(target.with_suffix(CORRUPT_SUFFIX))
        except FileNotFoundError:
            pass
        return False

    def _fetch_into(self, ref: AdapterRef, target: Path) -> None:
        partial = target.with_name(f"{target.stem}.{uuid.uuid4().hex}{PARTIAL_SUFFIX}")
        fetch_blob(ref.url, partial, ref.spec.weights_digest, ref.spec.weights_bytes)
        partial.replace(target)
        sync_folder(target.parent)

    def _evict(self, keep: Path) -> None:
        """Delete what is corrupt, then what was used longest ago, until the rest fits."""
        files = sorted(
            self._files(SUFFIX, CORRUPT_SUFFIX),
            key=lambda file: (file[0].suffix == SUFFIX, file[1].st_mtime),
        )
        excess_bytes = sum(stat.st_size for _, stat in files) - self.budget_bytes
        held_since = time.time() - self.hold_seconds
        for path, stat in files:
            if excess_bytes <= 0:
                return
            is_held = stat.st_mtime > held_since and path.suffix != CORRUPT_SUFFIX
            if path != keep and not is_held:
                path.unlink(missing_ok=True)
                excess_bytes -= stat.st_size

    def _remove_abandoned(self) -> None:
        limit = time.time() - ABANDONED_SECONDS
        for path, stat in self._files(PARTIAL_SUFFIX):
            if stat.st_mtime < limit:
                path.unlink(missing_ok=True)

    def _files(self, *suffixes: str) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self.cache_dir.glob("*/*"):
            with suppress(FileNotFoundError):
                if path.suffix in suffixes:
                    yield path, path.stat()


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
