"""Remembers which processes we started, so that the next start can end what a crash left over."""

import contextlib
import json
import os
import signal
from pathlib import Path

import psutil

from loraplex.platform.embedded.private_files import private_dir, write_private

GRACE_SECONDS = 5


class ChildRecords:
    """One file a child in the run directory: its process id and who that process was."""

    def __init__(self, run_dir: Path) -> None:
        self._dir = private_dir(run_dir / "children")

    def remember(self, name: str, process_id: int) -> None:
        record = {"process_id": process_id, "identity": process_identity(process_id)}
        write_private(self._dir / f"{name}.json", json.dumps(record))

    def forget(self, name: str) -> None:
        (self._dir / f"{name}.json").unlink(missing_ok=True)

    def reap(self) -> list[str]:
        """End what an earlier supervisor left running; the names of what was found.

        Asks all first, so that they end side by side, and kills after a grace period.
        """
        found: dict[str, list[psutil.Process]] = {}
        for file in sorted(self._dir.glob("*.json")):
            with contextlib.suppress(ValueError, KeyError):
                record = json.loads(file.read_text())
                if left := _left_of(record["process_id"], record["identity"]):
                    found[file.stem] = left
        everybody = [process for left in found.values() for process in left]
        for process in everybody:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGTERM)
        _, stubborn = psutil.wait_procs(everybody, timeout=GRACE_SECONDS)
        for process in stubborn:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(stubborn, timeout=GRACE_SECONDS)
        for file in self._dir.glob("*.json"):
            file.unlink()
        return list(found)


def process_identity(process_id: int) -> str | None:
    """What tells a process from a later one with the same number; None when there is none.

    The start time in clock ticks since boot: unlike a wall-clock time it never shifts.
    """
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        with contextlib.suppress(psutil.NoSuchProcess):
            return str(psutil.Process(process_id).create_time())
        return None
    # The second field is a name in parentheses that may hold anything, spaces included.
    start_ticks = stat.rpartition(")")[2].split()[19]
    return f"{boot}/{start_ticks}"


def _left_of(process_id: int, identity: str | None) -> list[psutil.Process]:
    """The recorded process and its session; each child of a supervisor leads a session."""
    now = process_identity(process_id)
    if now is not None and now != identity:
        return []  # the number went to a stranger, so the session we made cannot exist any more
    members = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            is_member = process.pid == process_id or os.getsid(process.pid) == process_id
            if is_member and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
    return members
