"""What is asked: prompts of random tokens behind a shared prefix, in a fixed order of models."""

import random
from collections.abc import Sequence
from typing import Final

import msgspec

from loraplex.engine.benchmarks.errors import InvalidWorkload
from loraplex.engine.benchmarks.popularity import Popularity, draw
from loraplex.engine.benchmarks.serve.arrivals import Process, arrivals
from loraplex.engine.benchmarks.serve.targets import Target

TOKEN_IDS: Final = range(1_000, 30_000)
"""Ordinary tokens of every usual vocabulary: special ones lie at its ends."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """`prefix_tokens` of the `prompt_tokens` are the same in every request of a run."""

    prompt_tokens: int
    output_tokens: int
    prefix_tokens: int = 0
    process: Process = Process.POISSON
    popularity: Popularity = Popularity.ZIPF
    zipf_exponent: float = 1.0
    requests: int | None = None
    duration_seconds: float | None = None
    ignore_eos: bool = True
    """Ask for all output tokens whatever the model says: a field that OpenAI's own API lacks."""
    seed: int = 0

    def check(self) -> None:
        """Raises InvalidWorkload."""
        if self.prefix_tokens > self.prompt_tokens:
            raise InvalidWorkload(
                f"A shared prefix of {self.prefix_tokens} tokens is longer than the prompt of "
                f"{self.prompt_tokens}.",
                field="prefix_tokens",
                rule=f"≤ {self.prompt_tokens}",
                value=self.prefix_tokens,
            )


class Call(msgspec.Struct, frozen=True):
    """One request: when it arrives (seconds after the start), to whom, and its body."""

    at: float
    target: Target
    body: bytes


def calls(workload: Workload, targets: Sequence[Target], rate: float) -> list[Call]:
    """All requests of one rate. The same seed and rate give the same calls."""
    chance = random.Random(f"{workload.seed}:{rate}")  # noqa: S311 - a workload, not a secret
    times = arrivals(
        workload.process,
        rate,
        chance,
        requests=workload.requests,
        duration_seconds=workload.duration_seconds,
    )
    prefix = random.Random(workload.seed).choices(TOKEN_IDS, k=workload.prefix_tokens)  # noqa: S311
    chosen = draw(targets, workload.popularity, workload.zipf_exponent, len(times), chance)
    rest = workload.prompt_tokens - workload.prefix_tokens
    return [
        Call(at, target, body(workload, target, prefix + chance.choices(TOKEN_IDS, k=rest)))
        for at, target in zip(times, chosen, strict=True)
    ]


def body(workload: Workload, target: Target, prompt: Sequence[int]) -> bytes:
    """A streamed, greedy call of /v1/completions."""
    fields = {
        "model": target.model,
        "prompt": prompt,
        "max_tokens": workload.output_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return msgspec.json.encode(fields | ({"ignore_eos": True} if workload.ignore_eos else {}))
