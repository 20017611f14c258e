"""Random conversations of several turns, each answered with the prefix cache and without it."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from loraplex.engine.core import EngineCore
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.generation import GenerationRequest
from loraplex.engine.protocol.sampling import SamplingParams
from tests.engine.driving import Answer, finish, request

MARGIN = 1e-3
"""Where the two best logits lie nearer, rounding may choose."""


@dataclass
class Conversation:
    """`token_ids` are all tokens so far; many conversations begin with the same ones."""

    name: str
    adapter: AdapterRef | None
    token_ids: list[int] = field(default_factory=list)

    def ask(self, name: str, output_tokens: int, *, use_prefix_cache: bool) -> GenerationRequest:
        sampling = SamplingParams(max_tokens=output_tokens, temperature=0.0, logprobs=2)
        one = request(f"{self.name} {name}", self.token_ids, sampling, self.adapter)
        return msgspec.structs.replace(one, use_prefix_cache=use_prefix_cache)


@dataclass
class Comparison:
    turns: int = 0
    cached_tokens: int = 0
    rounded_turns: int = 0
    """Turns that differed from a step on at which rounding may choose."""

    def add(self, found: Answer, computed: Answer) -> None:
        assert found.last is not None
        assert computed.last is not None
        assert computed.last.cached_tokens == 0
        self.turns += 1
        self.cached_tokens += found.last.cached_tokens
        pairs = zip(found.token_ids, computed.token_ids, strict=True)
        differing = next((place for place, pair in enumerate(pairs) if pair[0] != pair[1]), None)
        if differing is not None:
            best, second = computed.logprobs[differing].top
            assert best[1] - second[1] <= MARGIN, "a hit changed the output"
            self.rounded_turns += 1


def compare(
    engine: EngineCore,
    adapters: Sequence[AdapterRef | None],
    *,
    conversations: int,
    at_once: int,
    vocabulary_size: int,
    turn_tokens: int,
    seed: int,
) -> Comparison:
    """Some conversations at once, so that hits, misses, evictions and chunks meet in a step."""
    chooser, comparison = random.Random(seed), Comparison()
    systems = [_tokens(chooser, vocabulary_size, turn_tokens) for _ in range(2)]
    for first in range(0, conversations, at_once):
        talking = []
        for number in range(first, min(first + at_once, conversations)):
            system = chooser.choice(systems)[: chooser.randint(0, turn_tokens)]
            talking.append(Conversation(f"{number}", chooser.choice(adapters), list(system)))
        for turn in range(chooser.randint(2, 4)):
            for one in talking:
                count = chooser.randint(1, turn_tokens)
                one.token_ids += _tokens(chooser, vocabulary_size, count)
            output_tokens = chooser.randint(1, 8)
            names = [f"turn {turn}", f"turn {turn} computed"]
            found, computed = (
                _answers(
                    engine, [one.ask(name, output_tokens, use_prefix_cache=uses) for one in talking]
                )
                for name, uses in zip(names, (True, False), strict=True)
            )
            for one in talking:
                answer = found[f"{one.name} {names[0]}"]
                comparison.add(answer, computed[f"{one.name} {names[1]}"])
                one.token_ids += answer.token_ids
    return comparison


def _answers(engine: EngineCore, requests: Iterable[GenerationRequest]) -> dict[str, Answer]:
    for one in requests:
        engine.add(one)
    return finish(engine)


def _tokens(chooser: random.Random, vocabulary_size: int, count: int) -> list[int]:
    return [chooser.randrange(3, vocabulary_size) for _ in range(count)]
