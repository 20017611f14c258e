"""Steps on their way: submitted in order, read in order, as far ahead as the device allows."""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from loraplex.engine.execution.executor import Executor, PendingStep
from loraplex.engine.protocol.errors import DomainError
from loraplex.engine.sampling.sampler import SampledToken
from loraplex.engine.scheduler.assembly import AssembledStep
from loraplex.engine.scheduler.plan import StepPlan


@dataclass(frozen=True, slots=True)
class FinishedStep:
    """`outcomes` is one for each request of `step.sampled`, none where the step failed.

    `seconds` is how long the device had this step to itself, as far as the host can tell.
    """

    step: AssembledStep
    outcomes: list[SampledToken | DomainError]
    seconds: float
    error: Exception | None = None


class Steps:
    """`steps_ahead` steps may be submitted before the one before them has been read."""

    def __init__(self, executor: Executor, steps_ahead: int) -> None:
        self._executor = executor
        self._steps_ahead = steps_ahead
        self._in_flight: deque[tuple[PendingStep, float]] = deque()
        self._finished_at = 0.0

    @property
    def are_in_flight(self) -> bool:
        return bool(self._in_flight)

    def submit(self, plan: StepPlan) -> AssembledStep:
        """Start a step. Raises whatever it fails with before it has begun."""
        submitted_at = time.monotonic()
        pending = self._executor.submit(plan)
        self._in_flight.append((pending, submitted_at))
        return pending.step

    def wait_for_excess(self) -> Iterator[FinishedStep]:
        """The steps that have to be read before another one may be submitted."""
        while len(self._in_flight) > self._steps_ahead:
            yield self._wait_for_first()

    def wait_for_all(self) -> Iterator[FinishedStep]:
        while self._in_flight:
            yield self._wait_for_first()

    def _wait_for_first(self) -> FinishedStep:
        pending, submitted_at = self._in_flight.popleft()
        outcomes: list[SampledToken | DomainError] = []
        failure = None
        try:
            outcomes = pending.outcomes()
        except Exception as error:  # whoever accounts for the step tells its requests
            failure = error
        began_at = max(submitted_at, self._finished_at)
        self._finished_at = time.monotonic()
        return FinishedStep(pending.step, outcomes, self._finished_at - began_at, failure)
