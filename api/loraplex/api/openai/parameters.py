"""From a validated body to what the engine obeys, and the rules that span its fields.

What OpenAI's API has and Loraplex does not serve is listed here, with the reason a client reads.
"""

import hashlib
import secrets
from collections.abc import Iterable

from loraplex.api.openai.schemas import ChatBody, CompletionBody, GenerationBody
from loraplex.api.refusals import InvalidValue
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.protocol.sampling import SamplingParams

MAX_SEQUENCES = 128
"""Prompts times choices of one request."""
MAX_ID_DIGITS = 10
SEED_BITS = 63
SEED_MASK = (1 << SEED_BITS) - 1

_NO_TOOLS = "the model cannot call tools yet."
CHAT_UNSERVED = {
    "audio": "the model speaks text only.",
    "function_call": _NO_TOOLS,
    "functions": _NO_TOOLS,
    "moderation": "nothing is moderated here.",
    "prediction": "predicted outputs are not made use of.",
    "prompt_cache_options": "what is cached is not a client's choice.",
    "prompt_cache_retention": "what is cached is not a client's choice.",
    "reasoning_effort": "the model does not reason apart from its answer.",
    "tools": _NO_TOOLS,
    "verbosity": "the model knows no levels of verbosity.",
    "web_search_options": "there is no web search.",
}
COMPLETION_UNSERVED: dict[str, str] = {}


def chat_max_tokens(body: ChatBody) -> tuple[int | None, str]:
    """The most tokens asked for, and the field that says so; None for as many as fit."""
    if body.max_completion_tokens is None:
        return body.max_tokens, "max_tokens"
    if body.max_tokens not in (None, body.max_completion_tokens):
        raise InvalidValue(
            "`max_tokens` and `max_completion_tokens` say the same thing and differ.",
            field="max_tokens",
            rule="equal to max_completion_tokens, or absent",
            value=body.max_tokens,
        )
    return body.max_completion_tokens, "max_completion_tokens"


def chat_logprobs_wanted(body: ChatBody) -> int | None:
    """How many alternatives each token is to show; None for no logprobs."""
    if body.logprobs:
        return body.top_logprobs or 0
    if body.top_logprobs:
        raise InvalidValue(
            "`top_logprobs` needs `logprobs: true`.",
            field="top_logprobs",
            rule="0, or logprobs true",
            value=body.top_logprobs,
        )
    return None


def check_completion(body: CompletionBody) -> None:
    """The rules of completions that span fields."""
    if body.best_of is not None and body.best_of != body.n:
        raise InvalidValue(
            f"`best_of` is served only when it equals `n`, which is {body.n}.",
            field="best_of",
            rule=f"{body.n}",
            value=body.best_of,
        )
    if body.echo and body.logprobs is not None:
        raise InvalidValue(
            "`logprobs` of an echoed prompt are not served.",
            field="logprobs",
            rule="absent when echo is true",
            value=body.logprobs,
        )


def check_common(body: GenerationBody) -> None:
    """The rules that chat and completions share and that span fields."""
    if body.stream_options is not None and not body.stream:
        raise InvalidValue(
            "`stream_options` is for streams: set `stream: true`.",
            field="stream_options",
            rule="absent unless stream is true",
        )


def check_sequences(prompts: int, choices: int) -> None:
    if prompts * choices > MAX_SEQUENCES:
        raise InvalidValue(
            f"{prompts} prompts times {choices} choices are {prompts * choices} sequences; "
            f"one request may have {MAX_SEQUENCES}.",
            field="n",
            rule=f"at most {MAX_SEQUENCES} prompts times choices",
            value=choices,
        )


def check_token_ids(ids: Iterable[int], vocabulary_size: int, field: str) -> None:
    """Raise InvalidValue, naming the place, unless every id is in the vocabulary."""
    for place, token_id in enumerate(ids):
        if token_id >= vocabulary_size:
            raise InvalidValue(
                f"Token {token_id} is not in the vocabulary of {vocabulary_size} tokens.",
                field=f"{field}[{place}]",
                rule=f"below {vocabulary_size}",
                value=token_id,
            )


def sampling_of(
    body: GenerationBody, *, max_tokens: int, logprobs: int | None, table: ModuleTable
) -> SamplingParams:
    """The body's sampling of its first choice; raises InvalidValue."""
    if body.min_tokens > max_tokens:
        raise InvalidValue(
            f"`min_tokens` should be at most the {max_tokens} tokens that may be generated, "
            f"not {body.min_tokens}.",
            field="min_tokens",
            rule=f"at most {max_tokens}",
            value=body.min_tokens,
        )
    check_token_ids(body.stop_token_ids, table.vocabulary_size, "stop_token_ids")
    stops = dict.fromkeys(body.stop_token_ids)
    if not body.ignore_eos:
        stops |= dict.fromkeys(table.eos_token_ids)
    seed = secrets.randbits(SEED_BITS) if body.seed is None else body.seed
    return SamplingParams(
        max_tokens=max_tokens,
        min_tokens=body.min_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=max(0, body.top_k),
        min_p=body.min_p,
        seed=seed & SEED_MASK,
        repetition_penalty=body.repetition_penalty,
        presence_penalty=body.presence_penalty,
        frequency_penalty=body.frequency_penalty,
        logit_bias=_logit_bias(body.logit_bias, table),
        stop_token_ids=tuple(stops),
        logprobs=logprobs,
    )


def seed_of_choice(seed: int, choice: int) -> int:
    """A seed of its own for each choice of a prompt; the first keeps the client's."""
    if choice == 0:
        return seed
    digest = hashlib.sha256(f"{seed}/{choice}".encode()).digest()
    return int.from_bytes(digest[:8], "big") & SEED_MASK


def _logit_bias(bias: dict[str, float], table: ModuleTable) -> dict[int, float]:
    ids = {}
    for name, value in bias.items():
        is_id = name.isascii() and name.isdigit() and len(name) <= MAX_ID_DIGITS
        if not is_id or int(name) >= table.vocabulary_size:
            raise InvalidValue(
                f"`logit_bias` should have token ids below {table.vocabulary_size} as its names.",
                field="logit_bias",
                rule=f"names that are token ids below {table.vocabulary_size}",
            )
        ids[int(name)] = value
    return ids
