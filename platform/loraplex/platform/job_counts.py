"""Counts background jobs, how they end and how long they take."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from celery.exceptions import SoftTimeLimitExceeded

from loraplex.platform.metrics import JOB_SECONDS, JOBS


@contextmanager
def counted(name: str) -> Iterator[None]:
    """Count a job and how it ends, in the child that runs it."""
    started, outcome = monotonic(), "failed"
    try:
        yield
        outcome = "succeeded"
    except SoftTimeLimitExceeded:
        outcome = "timed_out"
        raise
    finally:
        JOBS.labels(name, outcome).inc()
        JOB_SECONDS.labels(name).observe(monotonic() - started)
