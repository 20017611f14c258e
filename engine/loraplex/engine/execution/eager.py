"""Runs each step at once, op by op."""

from dataclasses import dataclass

import torch

from loraplex.engine.memory.geometry import PageGeometry
from loraplex.engine.memory.pool import PagePool
from loraplex.engine.models.decoder import Decoder
from loraplex.engine.protocol.errors import DomainError
from loraplex.engine.sampling.sampler import SampledToken, sample
from loraplex.engine.scheduler.assembly import AssembledStep, assemble
from loraplex.engine.scheduler.plan import StepPlan


@dataclass(frozen=True)
class FinishedStep:
    """A step whose device needed no waiting for."""

    step: AssembledStep
    sampled: list[SampledToken | DomainError]

    def outcomes(self) -> list[SampledToken | DomainError]:
        return self.sampled


@dataclass(frozen=True)
class EagerExecutor:
    """`submit` returns when the step has been computed."""

    model: Decoder
    pool: PagePool
    geometry: PageGeometry
    tile_rank: int

    def submit(self, plan: StepPlan) -> FinishedStep:
        with torch.inference_mode():
            self.pool.clear(plan.new_pages)
            step = assemble(plan.rows, self.geometry, self.tile_rank, self.pool.data.device)
            logits = self.model.forward(step.batch, self.pool.data)
            return FinishedStep(step, sample(logits, [r.sampling for r in step.sampled]))
