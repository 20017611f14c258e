"""Folders for what a job has on disk while it runs; what a killed one left is removed in time."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LEFT_OVER_SECONDS = 2 * 3600
"""Longer than any job may run: what is older belongs to nobody."""


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """A new folder of the job's own below `parent`, gone with all it holds afterwards."""
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    remove_left_over(parent, LEFT_OVER_SECONDS)
    with tempfile.TemporaryDirectory(dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def remove_left_over(parent: Path, older_than_seconds: float) -> None:
    """Remove folders whose job must be dead; another process may be doing the same."""
    for folder in parent.iterdir():
        with suppress(FileNotFoundError):
            if folder.stat().st_mtime < time.time() - older_than_seconds:
                shutil.rmtree(folder, ignore_errors=True)
