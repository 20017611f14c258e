"""Starts the worker's beat again when it has died: without it nobody would sweep."""

from typing import Any

import structlog
from celery import bootsteps

WATCH_SECONDS = 5.0

log = structlog.get_logger(__name__)


class BeatWatch(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery is untyped
    """Looks after the process that `worker --beat` starts once and never looks at again."""

    requires = ("celery.worker.components:Timer", "celery.worker.components:Beat")

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        self._timer_entry: Any = None

    def start(self, worker: Any) -> None:
        if worker.beat is not None:
            self._timer_entry = worker.timer.call_repeatedly(WATCH_SECONDS, self.look, (worker,))

    def stop(self, worker: Any) -> None:
        if self._timer_entry is not None:
            self._timer_entry.cancel()

    def look(self, worker: Any) -> None:
        """Put a new beat in the dead one's place, also where the worker stops it in the end."""
        from celery.beat import EmbeddedService
        from celery.worker.components import Beat

        if worker.beat.is_alive():
            return
        log.warning("beat_died", exit_code=worker.beat.exitcode)
        worker.beat = EmbeddedService(worker.app, scheduler_cls=worker.scheduler)
        worker.beat.start()
        for step in worker.steps:
            if isinstance(step, Beat):
                step.obj = worker.beat
