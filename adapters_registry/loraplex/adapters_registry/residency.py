"""Adapter files on this machine's disk: fetched once for all its workers, kept in a budget.

Runs beside the engine. Knows digests, opaque namespaces and presigned URLs; no database, no
credentials, no tensors. The folder is the whole state: workers of one machine share it, and a
restart finds what is there. Whoever reads a file hashes what it reads; here nothing is read twice.
"""

import errno
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from loraplex.adapters_registry.blob_fetch import FetchFailed, fetch_blob
from loraplex.adapters_registry.cache_folder import HOLD_SECONDS, CacheFolder
from loraplex.adapters_registry.transfer import FollowedFile, Transfer
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import AdapterUnavailable, TransferBroke
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.workers import Tier, TierLoad

SAFE_PART: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
DIGEST: Final = re.compile(r"sha256:(?P<hex>[0-9a-f]{64})")


class _Flight:
    """A file that somebody of this process provides; others join."""

    def __init__(self) -> None:
        self.landed: Future[Path] = Future()
        self.transfer = Transfer()


class NodeCache:
    """An AdapterSource over a directory. All methods may be called from many threads."""

    def __init__(
        self, cache_dir: Path, budget_bytes: int, *, hold_seconds: float = HOLD_SECONDS
    ) -> None:
        """`budget_bytes` is exceeded only by files handed out less than `hold_seconds` ago."""
        self.cache_dir = cache_dir
        self._folder = CacheFolder(cache_dir, budget_bytes, hold_seconds)
        self._lock = threading.Lock()
        self._flights: dict[Path, _Flight] = {}
        self._hits = self._fetches = self._failures = self._joins = self._corrupt = 0
        self._fetched_bytes = 0
        self._fetch_seconds = 0.0

    def fetch(self, ref: AdapterRef) -> Path:
        """A local safetensors file of the adapter, to be hashed as it is read; blocks meanwhile.

        Whoever asks for a file that is being fetched, by whichever process of this machine, waits
        for that fetch; should it fail, each tries once more with the URL of its own. Raises
        AdapterUnavailable.
        """
        target = self._path(ref)
        flight, is_ours = self._board(target)
        if not is_ours:
            with suppress(AdapterUnavailable):
                return flight.landed.result()
            flight, is_ours = self._board(target)
            if not is_ours:
                return flight.landed.result()
        self._fly(ref, target, flight)
        return flight.landed.result()

    @contextmanager
    def follow(self, ref: AdapterRef) -> Iterator[FollowedFile | None]:
        """The file while it comes from the store; None where it does not have to.

        Its fetch goes on behind, whatever becomes of who follows it: the file is flushed to disk
        while its bytes are in use. Raises AdapterUnavailable.
        """
        target = self._path(ref)
        if target.exists():
            yield None
            return
        flight, is_ours = self._board(target)
        if is_ours:
            # A daemon: a fetch that hangs must not keep the process from ending.
            threading.Thread(
                target=self._fly, args=(ref, target, flight), name="adapter-fetch", daemon=True
            ).start()
        try:
            with flight.transfer.follow() as file:
                yield file
        except TransferBroke:
            flight.landed.result()  # why it failed; or another attempt has brought the file
            raise

    def distrust(self, ref: AdapterRef) -> None:
        """Put aside a file whose bytes turned out wrong; the next fetch gets it anew."""
        if self._folder.put_aside(self._path(ref)):
            with self._lock:
                self._corrupt += 1

    def forget(self, namespaces: Sequence[TenantNamespace]) -> None:
        """Remove what deleted tenants have here; whoever still fetches for one of them fails."""
        for namespace in namespaces:
            if SAFE_PART.fullmatch(namespace):
                self._folder.forget(namespace)

    def tiers(self) -> tuple[TierLoad, ...]:
        """The disk and the store. The disk's bytes are all workers', as this one last saw them."""
        with self._lock:
            disk = TierLoad(
                tier=Tier.DISK,
                hits=self._hits,
                misses=self._fetches + self._failures,
                bytes=self._folder.used_bytes,
                budget_bytes=self._folder.budget_bytes,
                evictions=self._folder.evictions,
                joins=self._joins,
                corrupt=self._corrupt,
            )
            store = TierLoad(
                tier=Tier.STORE,
                hits=self._fetches,
                misses=self._failures,
                bytes=self._fetched_bytes,
                load_seconds=self._fetch_seconds,
            )
        return disk, store

    def _board(self, target: Path) -> tuple[_Flight, bool]:
        with self._lock:
            flight = self._flights.get(target)
            if flight is not None:
                self._joins += 1
                return flight, False
            flight = self._flights[target] = _Flight()
            return flight, True

    def _fly(self, ref: AdapterRef, target: Path, flight: _Flight) -> None:
        """Find the file or fetch it, and tell those on board."""
        error: BaseException | None = None
        try:
            self._provide(ref, target, flight.transfer)
        except BaseException as raised:  # whoever waits for the flight raises it
            error = raised
        with self._lock:
            del self._flights[target]
        if error is None:
            flight.landed.set_result(target)
        else:
            flight.landed.set_exception(error)
        flight.transfer.end()

    def _path(self, ref: AdapterRef) -> Path:
        digest = DIGEST.fullmatch(ref.spec.weights_digest)
        if digest is None or not SAFE_PART.fullmatch(ref.namespace):
            raise AdapterUnavailable("The adapter's digest or namespace is malformed.")
        return self._folder.place(ref.namespace, digest["hex"])

    def _provide(self, ref: AdapterRef, target: Path, transfer: Transfer) -> None:
        if self._find(target):
            return
        try:
            with self._folder.flight(target) as has_waited:
                # Another process may have made it meanwhile.
                if self._find(target, has_joined=has_waited):
                    return
                self._fetch(ref, target, transfer)
        except FetchFailed as failed:
            self._count_failure()
            raise AdapterUnavailable(f"The adapter's weights cannot be had: {failed}.") from failed
        except OSError as error:
            self._count_failure()
            raise AdapterUnavailable(
                f"The adapter's weights cannot be kept on this machine: {error.strerror}."
            ) from error

    def _find(self, target: Path, *, has_joined: bool = False) -> bool:
        """Whether the file is there; it counts as used now, so that nobody evicts it."""
        try:
            os.utime(target)
        except (FileNotFoundError, NotADirectoryError):
            return False
        with self._lock:
            self._hits += not has_joined
            self._joins += has_joined
        return True

    def _fetch(self, ref: AdapterRef, target: Path, transfer: Transfer) -> None:
        size_bytes, began_at = ref.spec.weights_bytes, time.monotonic()
        self._folder.make_room(ref.namespace, size_bytes)
        try:
            self._fetch_into(ref, target, transfer)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            # The disk is smaller than the budget: let as much go as is wanted, whatever it says.
            self._folder.make_room(ref.namespace, self._folder.budget_bytes)
            self._fetch_into(ref, target, transfer)
        with self._lock:
            self._fetches += 1
            self._fetched_bytes += size_bytes
            self._fetch_seconds += time.monotonic() - began_at

    def _fetch_into(self, ref: AdapterRef, target: Path, transfer: Transfer) -> None:
        partial = self._folder.new_partial(target)
        spec = ref.spec
        fetch_blob(ref.url, partial, spec.weights_digest, spec.weights_bytes, transfer)
        self._folder.publish(partial, target)

    def _count_failure(self) -> None:
        with self._lock:
            self._failures += 1
