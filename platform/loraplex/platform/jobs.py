"""The Celery application, and what a background job has at hand.

A job is an async function registered with `@job`; modules of jobs are found through the
entry-point group `loraplex.tasks`. Delivery is at least once and may be late: a job looks at the
row, does the next step if the row's state allows, and compares-and-sets. Whatever must happen even
when the broker loses everything has a sweeper in some module's BEAT_SCHEDULE.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Concatenate, ParamSpec, TypeVar

from celery import Celery, Task, shared_task
from celery.signals import (
    beat_embedded_init,
    import_modules,
    setup_logging,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
)

from loraplex.engine.protocol.tracing import (
    NO_TRACING,
    TRACEPARENT,
    SpanKind,
    Tracing,
    start_tracing,
)
from loraplex.platform.beat_watch import BeatWatch
from loraplex.platform.database.sessions import Database
from loraplex.platform.job_counts import counted
from loraplex.platform.logs import log_as_set
from loraplex.platform.metrics_folder import join, leave
from loraplex.platform.metrics_listener import serve_metrics
from loraplex.platform.settings import MissingSetting, Settings

P = ParamSpec("P")
Result = TypeVar("Result")

TASK_MODULES_GROUP = "loraplex.tasks"
OWN_MODULES = (
    "loraplex.platform.sweeps",
    "loraplex.platform.metering.sweeps",
    "loraplex.platform.webhooks.sweeps",
    "loraplex.platform.audit.sweeps",
)

SOFT_LIMIT_SECONDS = 300
"""When a job that does not end is cancelled, unless it asked for longer."""
LONGEST_SOFT_LIMIT_SECONDS = 1200
HARD_LIMIT_MARGIN_SECONDS = 30
"""How much later the process is killed that did not obey."""
VISIBILITY_SECONDS = 1800
"""When the broker gives an unacknowledged message to another worker: later than any job's end.

Nothing waits for that: sweepers ask again much sooner.
"""
BROKER_SECONDS = 15
"""How long a broker may be silent within a call; one that is merely frozen must not hang us."""


@dataclass(frozen=True)
class JobContext:
    """One child process's own event loop, and its connections on role `system`."""

    settings: Settings
    database: Database
    runner: asyncio.Runner
    tracing: Tracing = NO_TRACING

    @classmethod
    def open(cls, settings: Settings) -> "JobContext":
        """Raises MissingSetting without a database URL of role `system`."""
        if settings.database_system_url is None:
            raise MissingSetting("LORAPLEX_DATABASE_SYSTEM_URL")
        url = settings.database_system_url.get_secret_value()
        return cls(
            settings,
            Database(url, pool_size=2),
            asyncio.Runner(),
            start_tracing("jobs", os.environ),
        )

    def run(
        self, function: Callable[P, Awaitable[Result]], *args: P.args, **kwargs: P.kwargs
    ) -> Result:
        """Run an async function to its end on this process's loop.

        A time limit that strikes in the middle cancels it, so that nothing of it runs on in the
        next job.
        """
        loop = self.runner.get_loop()
        task = asyncio.ensure_future(function(*args, **kwargs), loop=loop)
        try:
            return loop.run_until_complete(task)
        except BaseException:
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    loop.run_until_complete(task)
            raise

    def close(self) -> None:
        self.run(self.database.dispose)
        self.runner.close()
        self.tracing.close()


class Jobs(Celery):  # type: ignore[misc]  # Celery is untyped
    """Celery, with the context of the worker's child process it runs in."""

    context: JobContext | None = None


def job(
    name: str, *, soft_limit_seconds: int = SOFT_LIMIT_SECONDS
) -> Callable[
    [Callable[Concatenate[JobContext, P], Awaitable[None]]],
    Callable[Concatenate[JobContext, P], Awaitable[None]],
]:
    """Register an async function as the Celery task `name`.

    The function gets the JobContext first and the message's keyword arguments after it; it stays
    an ordinary async function for whoever calls it directly. Past `soft_limit_seconds` it is
    cancelled.
    """
    assert soft_limit_seconds <= LONGEST_SOFT_LIMIT_SECONDS, "the broker would redeliver it"

    def register(
        body: Callable[Concatenate[JobContext, P], Awaitable[None]],
    ) -> Callable[Concatenate[JobContext, P], Awaitable[None]]:
        def run(task: Task, *args: P.args, **kwargs: P.kwargs) -> None:
            context: JobContext | None = task.app.context
            assert context is not None, "a worker's child opens its context before its first job"
            parent = (task.request.headers or {}).get(TRACEPARENT)
            with counted(name), context.tracing.span(name, parent=parent, kind=SpanKind.CONSUMER):
                context.run(body, context, *args, **kwargs)

        shared_task(
            name=name,
            bind=True,
            soft_time_limit=soft_limit_seconds,
            time_limit=soft_limit_seconds + HARD_LIMIT_MARGIN_SECONDS,
        )(run)
        return body

    return register


def make_celery(settings: Settings) -> Jobs:
    """The Celery application: to send with, or to run as a worker with beat.

    Modules of jobs are imported only by a worker or beat. Raises MissingSetting without a broker.
    """
    if settings.broker_url is None:
        raise MissingSetting("LORAPLEX_BROKER_URL")
    app = Jobs("loraplex", broker=settings.broker_url.get_secret_value(), set_as_current=False)
    app.conf.update(_configuration(settings))
    app.steps["worker"].add(BeatWatch)
    _connect(app, settings)
    return app


def _configuration(settings: Settings) -> Mapping[str, Any]:
    return {
        "accept_content": ["json"],
        "task_serializer": "json",
        "task_ignore_result": True,
        "task_default_queue": "loraplex",
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        # The relay tries again by itself, so a publish that fails should fail soon.
        "task_publish_retry": False,
        "worker_prefetch_multiplier": 1,
        # A job that runs when the broker dies goes on: its row has the claim, and the message that
        # comes a second time finds the row moved on.
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_connection_timeout": BROKER_SECONDS,
        "broker_transport_options": {
            "visibility_timeout": VISIBILITY_SECONDS,
            "socket_connect_timeout": BROKER_SECONDS,
            "socket_timeout": BROKER_SECONDS,
            "socket_keepalive": True,
            "health_check_interval": 10,
        },
        # In memory: every interval is short, and a file that a kill tore would stop beat for good.
        "beat_scheduler": "celery.beat:Scheduler",
        "beat_max_loop_interval": 5,
        "enable_utc": True,
        "timezone": "UTC",
    }


def task_modules() -> list[str]:
    """Modules of jobs: our own, and those that components register."""
    return [*OWN_MODULES, *(entry.value for entry in entry_points(group=TASK_MODULES_GROUP))]


def _connect(app: Jobs, settings: Settings) -> None:
    """Have a worker load the jobs, and each of its children open and close a context."""

    def load_jobs(**_: object) -> None:
        for name in task_modules():
            module = import_module(name)
            app.conf.beat_schedule |= getattr(module, "BEAT_SCHEDULE", {})

    def log_as_we_do(**_: object) -> None:
        log_as_set(settings)

    def serve_metrics_here(**_: object) -> None:
        if settings.jobs_metrics_port is not None:
            serve_metrics(settings.jobs_metrics_host, settings.jobs_metrics_port)

    def open_context(**_: object) -> None:
        join("job")
        app.context = JobContext.open(settings)

    def close_context(**_: object) -> None:
        if app.context is not None:
            app.context.close()
            app.context = None
        leave()

    setup_logging.connect(log_as_we_do, weak=False)
    import_modules.connect(load_jobs, sender=app, weak=False)
    beat_embedded_init.connect(lambda **_: join("beat"), weak=False)
    worker_ready.connect(serve_metrics_here, weak=False)
    worker_process_init.connect(open_context, weak=False)
    worker_process_shutdown.connect(close_context, weak=False)
