"""What the core needs of whoever runs its steps."""

from typing import Protocol

from loraplex.engine.protocol.errors import DomainError
from loraplex.engine.sampling.sampler import SampledToken
from loraplex.engine.scheduler.assembly import AssembledStep
from loraplex.engine.scheduler.plan import StepPlan


class PendingStep(Protocol):
    """A step on its way."""

    @property
    def step(self) -> AssembledStep: ...

    def outcomes(self) -> list[SampledToken | DomainError]:
        """One for each request of `step.sampled`; waits for the device.

        Raises whatever the step failed with.
        """
        ...


class Executor(Protocol):
    """Runs steps on one device, in the order in which they are submitted."""

    def submit(self, plan: StepPlan) -> PendingStep:
        """Start a step. Raises whatever it fails with before it has begun."""
        ...
