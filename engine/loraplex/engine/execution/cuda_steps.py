"""A step on its way on CUDA, and what is read of it: the best token of each row, seldom more."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from loraplex.engine.execution.cuda_device import DeviceEvent, GraphDevice
from loraplex.engine.protocol.errors import DomainError
from loraplex.engine.request import Request
from loraplex.engine.sampling.sampler import SampledToken, best_outcome, sample
from loraplex.engine.sampling.state import SamplingState
from loraplex.engine.scheduler.assembly import AssembledStep

PICK_BYTES = 16
"""Of one row's pick: two int64."""


def pick(logits: Tensor) -> Tensor:
    """`[rows, 2]` int64 of `[rows, vocabulary]`: the best token; whether its logit is finite."""
    best, token_ids = logits.max(dim=-1)
    return torch.stack((token_ids, best.isfinite().to(torch.int64)), dim=1)


def takes_best(state: SamplingState) -> bool:
    """Whether the best token is the one, so that the device knows it by itself."""
    return state.is_greedy and not state.changes_logits


def needs_logits(state: SamplingState) -> bool:
    return not takes_best(state) or state.params.logprobs is not None


@dataclass
class RunningStep:
    """`picks` are in host memory once `done` has come; `logits` are kept where a row needs them."""

    step: AssembledStep
    picks: Tensor
    done: DeviceEvent
    logits: Tensor | None
    places: dict[Request, int] = field(init=False)
    """Of each sampled request in the step's results."""
    _outcomes: list[SampledToken | DomainError] | None = None

    def __post_init__(self) -> None:
        self.places = {request: place for place, request in enumerate(self.step.sampled)}

    def outcomes(self) -> list[SampledToken | DomainError]:
        if self._outcomes is None:
            self._outcomes = self._read()
            self.logits = None
        return self._outcomes

    def token_id(self, request: Request) -> int:
        """The token of a sampled request; any token where it will fail."""
        outcome = self.outcomes()[self.places[request]]
        return outcome.token_id if isinstance(outcome, SampledToken) else 0

    def _read(self) -> list[SampledToken | DomainError]:
        self.done.synchronize()
        states = [request.sampling for request in self.step.sampled]
        outcomes = [
            best_outcome(token_id, is_finite=bool(finite))
            for token_id, finite in self.picks.tolist()
        ]
        rows = [row for row, state in enumerate(states) if needs_logits(state)]
        if rows:
            assert self.logits is not None, "what a state needs was known when the step began"
            with torch.inference_mode():
                sampled = sample(self.logits[rows], [states[row] for row in rows])
            for row, outcome in zip(rows, sampled, strict=True):
                outcomes[row] = outcome
        return outcomes


class StepReader:
    """Starts the copy of a step's picks to host memory."""

    def __init__(self, device: GraphDevice) -> None:
        self._device = device

    def begin(self, step: AssembledStep, picks: Tensor, logits: Tensor) -> RunningStep:
        """`picks` and `logits` `[sampled, …]` may be overwritten on the device after this."""
        host = self._device.host_bytes(PICK_BYTES * len(picks)).view(torch.int64).view(-1, 2)
        host.copy_(picks, non_blocking=True)
        is_needed = any(needs_logits(request.sampling) for request in step.sampled)
        kept = logits.clone() if is_needed else None
        done = self._device.event()
        done.record()
        return RunningStep(step, host, done, kept)
