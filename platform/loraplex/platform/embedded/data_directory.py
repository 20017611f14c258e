"""Takes over a data directory: one supervisor at a time, and nothing left of an earlier one."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from loraplex.platform.embedded.errors import DataDirInUse
from loraplex.platform.embedded.leftovers import ChildRecords
from loraplex.platform.embedded.private_files import private_dir

SERVICES_FILE = "services.json"


@contextmanager
def held(data_dir: Path, report: Callable[[str], None]) -> Iterator[None]:
    """Hold the directory for the length of a with-block; no lock is left afterwards.

    What a killed supervisor left is cleared first: its children, which may hold the public port,
    and its file of services, which settings would take for external ones. Raises DataDirInUse,
    naming the process, when another supervisor holds the directory.
    """
    run_dir = private_dir(private_dir(data_dir) / "run")
    with _locked(run_dir / "lock", data_dir):
        for name in ChildRecords(run_dir).reap():
            report(f"ended {name}, left over from an earlier start")
        services_file = run_dir / SERVICES_FILE
        services_file.unlink(missing_ok=True)
        try:
            yield
        finally:
            services_file.unlink(missing_ok=True)


@contextmanager
def _locked(file: Path, data_dir: Path) -> Iterator[None]:
    """A file lock, which the kernel drops with its holder however that ends."""
    descriptor = _acquire(file, data_dir)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        yield
    finally:
        # Unlinked while still held: who waits for this inode finds the name gone and opens anew.
        file.unlink(missing_ok=True)
        os.close(descriptor)


def _acquire(file: Path, data_dir: Path) -> int:
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(descriptor, 32).decode() or "unknown"
            os.close(descriptor)
            raise DataDirInUse(
                f"Another `loraplex serve` (process {holder}) runs on {data_dir}. Stop it, or "
                "choose another directory with LORAPLEX_DATA_DIR.",
                field="data_dir",
                rule="one supervisor a data directory",
                value=str(data_dir),
            ) from error
        if _is_same_file(descriptor, file):
            return descriptor
        os.close(descriptor)


def _is_same_file(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False
