"""The node cache's folder: a file an adapter, a folder a tenant, a lock a flight, and who leaves.

Workers of one machine share it, and none of them is in charge: every step is one that another
process may have taken already.
"""

import fcntl
import os
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

SUFFIX: Final = ".safetensors"
PARTIAL_SUFFIX: Final = ".partial"
CORRUPT_SUFFIX: Final = ".corrupt"
LOCK_SUFFIX: Final = ".lock"
HOLD_SECONDS: Final = 60.0
"""A file handed out stays for at least this long: time enough to load it."""
ABANDONED_SECONDS: Final = 3600.0
"""A partial file nobody has written to for so long belongs to a process that died."""
TENANT_SHARE: Final = 0.5
"""Of the budget: what a tenant has beyond it goes first where somebody needs room."""


class KeptFile(NamedTuple):
    path: Path
    size_bytes: int
    used_at: float

    @property
    def is_corrupt(self) -> bool:
        return self.path.suffix == CORRUPT_SUFFIX

    @property
    def tenant(self) -> str:
        return self.path.parent.name


class CacheFolder:
    """A folder kept within a budget. All methods may be called from many threads and processes."""

    def __init__(self, root: Path, budget_bytes: int, hold_seconds: float = HOLD_SECONDS) -> None:
        self.root = root
        self.budget_bytes = budget_bytes
        self.evictions = 0
        self._hold_seconds = hold_seconds
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._remove_abandoned()
        self.used_bytes = sum(file.size_bytes for file in self._kept())
        """As last seen: others change it, too."""

    def place(self, namespace: str, name: str) -> Path:
        return self.root / namespace / f"{name}{SUFFIX}"

    def new_partial(self, target: Path) -> Path:
        target.parent.mkdir(exist_ok=True, mode=0o700)
        return target.with_name(f"{target.stem}.{uuid.uuid4().hex}{PARTIAL_SUFFIX}")

    def publish(self, partial: Path, target: Path) -> None:
        """Make a file that has been flushed to disk the one that everybody finds."""
        partial.replace(target)
        _sync_folder(target.parent)

    def put_aside(self, target: Path) -> bool:
        """Keep a corrupt file, for whoever looks for the cause, where nobody finds it."""
        try:
            target.replace(target.with_suffix(CORRUPT_SUFFIX))
        except FileNotFoundError:
            return False
        return True

    @contextmanager
    def flight(self, target: Path) -> Iterator[bool]:
        """Hold the right to make this file; yields whether somebody else had to be waited for.

        The right ends with the process that holds it, however that ends.
        """
        target.parent.mkdir(exist_ok=True, mode=0o700)
        lock = target.with_suffix(LOCK_SUFFIX)
        handle, has_waited = _lock(lock)
        try:
            yield has_waited
        finally:
            # Before it is let go, so that nobody who comes to hold it holds a removed one.
            lock.unlink(missing_ok=True)
            os.close(handle)

    def make_room(self, tenant: str, size_bytes: int) -> None:
        """Delete until so much more of this tenant fits the budget.

        First what is corrupt, then of tenants beyond their share, then what was used longest ago;
        what was handed out a moment ago stays, even beyond the budget.
        """
        files = sorted(self._kept(), key=lambda file: (not file.is_corrupt, file.used_at))
        self.used_bytes = sum(file.size_bytes for file in files) + size_bytes
        excess_bytes = self.used_bytes - self.budget_bytes
        if excess_bytes <= 0:
            return
        share_bytes = int(self.budget_bytes * TENANT_SHARE)
        held_by: Counter[str] = Counter({tenant: size_bytes})
        for file in files:
            held_by[file.tenant] += file.size_bytes
        held_since = time.time() - self._hold_seconds
        for only_beyond_share in (True, False):
            for file in files:
                if excess_bytes <= 0:
                    return
                may_leave = file.is_corrupt or (
                    file.used_at <= held_since
                    and (not only_beyond_share or held_by[file.tenant] > share_bytes)
                )
                if may_leave and _remove(file.path):
                    self.evictions += 1
                    held_by[file.tenant] -= file.size_bytes
                    excess_bytes -= file.size_bytes
                    self.used_bytes -= file.size_bytes

    def forget(self, tenant: str) -> None:
        """Delete a tenant's folder; what cannot be deleted now is when this is called again."""
        folder = self.root / tenant
        freed_bytes = sum(file.size_bytes for file in self._kept() if file.tenant == tenant)
        if folder.is_dir():
            shutil.rmtree(folder, ignore_errors=True)  # others may be deleting it as well
            self.used_bytes = max(0, self.used_bytes - freed_bytes)

    def _remove_abandoned(self) -> None:
        limit = time.time() - ABANDONED_SECONDS
        for file in self._files(PARTIAL_SUFFIX):
            if file.used_at < limit:
                file.path.unlink(missing_ok=True)

    def _kept(self) -> list[KeptFile]:
        return self._files(SUFFIX, CORRUPT_SUFFIX)

    def _files(self, *suffixes: str) -> list[KeptFile]:
        found = []
        for path in self.root.glob("*/*"):
            if path.suffix in suffixes:
                with suppress(FileNotFoundError):
                    stat = path.stat()
                    found.append(KeptFile(path, stat.st_size, stat.st_mtime))
        return found


def _lock(path: Path) -> tuple[int, bool]:
    """An exclusive lock on the file that lies at this path now, and whether it was waited for."""
    has_waited = False
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                has_waited = True
                fcntl.flock(handle, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), path.stat()):
                    return handle, has_waited
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # whoever held it before has removed it: it guards nothing any more


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Make a rename in this folder survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
