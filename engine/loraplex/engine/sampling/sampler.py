"""Chooses the next token of each sequence; a sequence that cannot be sampled fails alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from loraplex.engine.protocol.errors import DomainError, EngineFailure
from loraplex.engine.protocol.generation import TokenLogprob
from loraplex.engine.sampling.draw import draw, uniform
from loraplex.engine.sampling.logits import adjusted
from loraplex.engine.sampling.state import SamplingState


@dataclass(frozen=True)
class SampledToken:
    token_id: int
    logprob: TokenLogprob | None


def sample(logits: Tensor, states: Sequence[SamplingState]) -> list[SampledToken | DomainError]:
    """One outcome for each row of `[sequences, vocabulary]` float32 logits.

    Log-probabilities are the model's own: those of the logits before bias, penalties and
    temperature. Nothing is recorded in the states.
    """
    best, best_ids = logits.max(dim=-1)
    is_finite, greedy_ids = best.isfinite().tolist(), best_ids.tolist()
    outcomes: list[SampledToken | DomainError] = []
    for row, state in enumerate(states):
        if not is_finite[row]:
            outcomes.append(best_outcome(greedy_ids[row], is_finite=False))
            continue
        try:
            outcomes.append(_sample_one(logits[row], greedy_ids[row], state))
        except (RuntimeError, IndexError, ValueError) as error:
            outcomes.append(EngineFailure(f"Sampling failed: {type(error).__name__}."))
    return outcomes


def best_outcome(token_id: int, *, is_finite: bool) -> SampledToken | DomainError:
    """Of a sequence that takes the best token, by whether its logit is a number."""
    if not is_finite:
        return EngineFailure("The model's logits for this request are not numbers.")
    return SampledToken(token_id, None)


def _sample_one(logits: Tensor, greedy_id: int, state: SamplingState) -> SampledToken:
    token_id = greedy_id
    if state.changes_logits or not state.is_greedy:
        changed = adjusted(logits, state) if state.changes_logits else logits
        if state.is_greedy:
            token_id = int(changed.argmax())
        else:
            number = uniform(state.params.seed, state.output_tokens)
            token_id = draw(changed, state.params, number)
    if state.params.logprobs is None:
        return SampledToken(token_id, None)
    return SampledToken(token_id, _logprob(logits, token_id, state.params.logprobs))


def _logprob(logits: Tensor, token_id: int, alternatives: int) -> TokenLogprob:
    logprobs = torch.log_softmax(logits, dim=-1)
    best = logprobs.topk(min(alternatives, logprobs.numel()))
    return TokenLogprob(
        logprob=float(logprobs[token_id]),
        top=list(zip(best.indices.tolist(), best.values.tolist(), strict=True)),
    )
