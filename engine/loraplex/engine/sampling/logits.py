"""Changes logits before the draw: bias, penalties, and stop tokens that may not come yet."""

from torch import Tensor, where

from loraplex.engine.sampling.state import SamplingState


def adjusted(logits: Tensor, state: SamplingState) -> Tensor:
    """`[vocabulary]` logits as the request wants them, in a tensor of their own.

    The order is vLLM's: bias, repetition penalty (over prompt and output: positive logits are
    divided by it, negative ones multiplied), frequency and presence penalties (over the output,
    subtracted), then stop tokens masked until `min_tokens`.
    """
    params = state.params
    logits = logits.clone()
    for token_id, bias in params.logit_bias.items():
        logits[token_id] += bias
    if state.seen is not None:
        penalty = params.repetition_penalty
        penalised = where(logits > 0, logits / penalty, logits * penalty)
        logits = where(state.seen.to(logits.device), penalised, logits)
    if state.output_counts is not None:
        counts = state.output_counts.to(logits.device)
        logits -= params.frequency_penalty * counts
        logits -= params.presence_penalty * (counts > 0)
    if state.must_go_on:
        logits[list(state.stop_token_ids)] = float("-inf")
    return logits
