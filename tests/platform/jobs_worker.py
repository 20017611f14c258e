"""A real Celery worker with children, as a process."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loraplex.platform.embedded.environment import child_environment
from loraplex.platform.embedded.processes import log_tail
from loraplex.platform.settings import Settings

WORKER = """
import sys
from loraplex.platform.jobs import make_celery
from loraplex.platform.settings import Settings
make_celery(Settings()).worker_main(sys.argv[1:])
"""
WORKER_OPTIONS = (
    "worker",
    "--concurrency=1",
    "--without-gossip",
    "--without-mingle",
    "--loglevel=INFO",
)


@contextmanager
def worker(settings: Settings, tmp_path: Path, *options: str) -> Iterator[Path]:
    """A real worker with children, until the with-block ends; its log."""
    log = tmp_path / "worker.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER, *WORKER_OPTIONS, *options],
            env=child_environment(settings),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield log
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0, log_tail(log)
