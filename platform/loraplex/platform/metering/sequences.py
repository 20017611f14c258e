"""A call's tokens of its sequences' tokens: one rule, whoever writes the bill."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SequenceUsage:
    """One choice's tokens; `prompt` is the place of its prompt, `prompt_tokens` include cached."""

    prompt: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class CallUsage:
    """All choices together; a prompt counts once, as its first choice had it."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    @property
    def billed(self) -> "CallUsage":
        """What is paid for: nothing, where nothing was generated."""
        return self if self.output_tokens > 0 else CallUsage()


def total(sequences: Iterable[SequenceUsage]) -> CallUsage:
    """`sequences` in the order of their places in the answer."""
    sequences = list(sequences)
    firsts = {one.prompt: one for one in reversed(sequences)}.values()
    return CallUsage(
        prompt_tokens=sum(one.prompt_tokens for one in firsts),
        cached_tokens=sum(one.cached_tokens for one in firsts),
        output_tokens=sum(one.output_tokens for one in sequences),
    )
