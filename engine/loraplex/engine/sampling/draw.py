"""Draws a token: a function of the logits, the parameters and (seed, output position) alone."""

import hashlib

import torch
from torch import Tensor

from loraplex.engine.protocol.sampling import SamplingParams


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1), the same on every machine and in every batch."""
    text = f"{seed}:{position}".encode()
    bits = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    return (bits >> 11) / (1 << 53)


def draw(logits: Tensor, params: SamplingParams, number: float) -> int:
    """The token of `[vocabulary]` float32 logits that `number`, uniform in [0, 1), falls on.

    The order is vLLM's: temperature, min_p, top_k, top_p, each on what the one before left.
    Tokens as likely as the last one kept are kept as well. The cumulated probabilities run in
    order of token ids and not of probability, so that rounding, which may swap neighbours in
    rank, does not change the token.
    """
    weights = torch.softmax(logits / params.temperature, dim=-1)
    if params.min_p > 0:
        weights = _at_least(weights, float(weights.max()) * params.min_p)
    if 0 < params.top_k < weights.numel():
        weights = _at_least(weights, float(weights.topk(params.top_k).values[-1]))
    if params.top_p < 1:
        weights = _at_least(weights, _nucleus_border(weights, params.top_p))
    cumulated = weights.double().cumsum(0)
    target = cumulated[-1] * number
    token_id = int(torch.searchsorted(cumulated, target, right=True))
    # Rounding may lift the target to the total itself, past the last possible token.
    return min(token_id, int(weights.nonzero()[-1]))


def _at_least(weights: Tensor, border: float) -> Tensor:
    return torch.where(weights >= border, weights, 0)


def _nucleus_border(weights: Tensor, top_p: float) -> float:
    """The smallest weight among the likeliest tokens that together reach `top_p` of the sum."""
    wanted = float(weights.double().sum()) * top_p
    count, size = 64, weights.numel()
    while True:
        # Few tokens reach it as a rule, so the vocabulary is sorted only where it must be.
        best = weights.topk(min(count, size)).values
        reached = best.double().cumsum(0) >= wanted
        if bool(reached[-1]):
            return float(best[int(reached.int().argmax())])
        if count >= size:
            return 0.0
        count *= 16
