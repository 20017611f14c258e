"""What three timed runs of a batch say of prefill and decode: the peers' formulas.

They are those that vLLM's CPU engine is measured with, so that one line of each can be compared:

    prefill_tokens_per_s = sequences · prompt_tokens / t(prompt_tokens, 1)
    decode_tokens_per_s  = sequences · (output_tokens − 1) / (t(8, output_tokens) − t(8, 1))
    step_ms              = (t(8, output_tokens) − t(8, 1)) / (output_tokens − 1)

where t(p, o) is the time from the first request's arrival to the last one's end, with all
sequences arriving together, p prompt tokens each, o output tokens each. Sequence i uses adapter
i mod adapters_in_batch.
"""

from typing import Final

import msgspec

from loraplex.engine.benchmarks.errors import InvalidWorkload

DECODE_PROMPT_TOKENS: Final = 8


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """`adapters_in_batch` 0 is the bare base."""

    sequences: int
    prompt_tokens: int
    output_tokens: int
    adapters_in_batch: int


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """What was timed, and what follows from it by the formulas above."""

    prefill_tokens_per_s: float
    decode_tokens_per_s: float
    step_ms: float
    prefill_seconds: float
    """t(prompt_tokens, 1)"""
    long_seconds: float
    """t(8, output_tokens)"""
    short_seconds: float
    """t(8, 1)"""


def speed(
    workload: Workload, prefill_seconds: float, long_seconds: float, short_seconds: float
) -> Speed:
    """Apply the formulas. Raises InvalidWorkload where decode was lost in the noise."""
    steps = workload.output_tokens - 1
    decode_seconds = long_seconds - short_seconds
    if decode_seconds <= 0:
        raise InvalidWorkload(
            f"{steps} decode steps were lost in the noise; ask for more output tokens.",
            field="output_tokens",
            rule="enough to be measured",
            value=workload.output_tokens,
        )
    prefill_tokens = workload.sequences * workload.prompt_tokens
    return Speed(
        prefill_tokens_per_s=round(prefill_tokens / prefill_seconds, 1),
        decode_tokens_per_s=round(workload.sequences * steps / decode_seconds, 1),
        step_ms=round(decode_seconds / steps * 1e3, 2),
        prefill_seconds=round(prefill_seconds, 5),
        long_seconds=round(long_seconds, 5),
        short_seconds=round(short_seconds, 5),
    )
