"""How the next token is chosen, validated by the gateway and obeyed by the sampler."""

import msgspec


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """Sampling of one sequence.

    `temperature` 0 is greedy. `top_k` 0 and `min_p` 0.0 are off. `seed` is always set (the
    gateway draws one when the client gives none): the draw for output position i depends only on
    (seed, i), never on the batch. `stop_token_ids` end the sequence and include the model's EOS
    unless the client asked to ignore it; before `min_tokens` they cannot be chosen. `logprobs` is
    the number of alternatives wanted beside the chosen token, None for no logprobs at all.
    """

    max_tokens: int
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int = 0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: dict[int, float] = {}
    stop_token_ids: tuple[int, ...] = ()
    logprobs: int | None = None
