"""What one sequence's sampling remembers between steps."""

from collections.abc import Sequence

import torch
from torch import Tensor

from loraplex.engine.protocol.sampling import SamplingParams

GREEDY_TEMPERATURE = 1e-5
"""Below this a temperature would only overflow; it is greedy."""


class SamplingState:
    """Counts for the penalties, kept only where a penalty is set."""

    def __init__(self, params: SamplingParams, prompt: Sequence[int], vocabulary_size: int) -> None:
        self.params = params
        self.output_tokens = 0
        self.stop_token_ids = frozenset(params.stop_token_ids)
        self.is_greedy = params.temperature < GREEDY_TEMPERATURE
        self.seen = _seen(params, prompt, vocabulary_size)
        """bool [vocabulary]: tokens of the prompt and the output, for the repetition penalty."""
        self.output_counts = _output_counts(params, vocabulary_size)
        """float32 [vocabulary]: how often each token was put out."""

    @property
    def must_go_on(self) -> bool:
        """Whether stop tokens cannot be chosen yet."""
        return self.output_tokens < self.params.min_tokens

    @property
    def changes_logits(self) -> bool:
        return bool(
            self.seen is not None
            or self.output_counts is not None
            or self.params.logit_bias
            or (self.must_go_on and self.stop_token_ids)
        )

    def record(self, token_id: int) -> None:
        """Count a token that was put out."""
        self.output_tokens += 1
        if self.seen is not None:
            self.seen[token_id] = True
        if self.output_counts is not None:
            self.output_counts[token_id] += 1


def _seen(params: SamplingParams, prompt: Sequence[int], vocabulary_size: int) -> Tensor | None:
    if params.repetition_penalty == 1.0:
        return None
    seen = torch.zeros(vocabulary_size, dtype=torch.bool)
    seen[torch.as_tensor(prompt, dtype=torch.int64)] = True
    return seen


def _output_counts(params: SamplingParams, vocabulary_size: int) -> Tensor | None:
    if params.presence_penalty == 0.0 and params.frequency_penalty == 0.0:
        return None
    return torch.zeros(vocabulary_size, dtype=torch.float32)
