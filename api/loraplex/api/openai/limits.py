"""What a prompt and its answer may have together: of the model, of a worker, beside an adapter."""

from loraplex.engine.protocol.adapter import AdapterSpec
from loraplex.engine.protocol.errors import PromptTooLong
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.protocol.workers import WorkerLimits

ELEMENT_BYTES = 4
PACKING_WASTE = 2


def context_of(table: ModuleTable, limits: WorkerLimits | None) -> int:
    """The tokens that a prompt and its answer may have together.

    `limits` is the largest live worker's, None while there is none.
    """
    if limits is None:
        return table.max_model_tokens
    return min(table.max_model_tokens, limits.max_model_tokens, limits.pool_tokens)


def check_prompt(
    prompt_tokens: int, context_tokens: int, field: str, *, at_least: bool = False
) -> None:
    """Raise PromptTooLong, naming both numbers, unless one token more would fit.

    `at_least` says that the prompt may have more tokens than were counted.
    """
    if prompt_tokens >= context_tokens:
        counted = f"at least {prompt_tokens}" if at_least else f"{prompt_tokens}"
        raise PromptTooLong(
            f"The prompt has {counted} tokens; a prompt and its answer may have "
            f"{context_tokens} together.",
            field=field,
            rule=f"at most {context_tokens - 1} tokens",
            value=prompt_tokens,
        )


def fit(
    prompt_tokens: int, max_tokens: int | None, room_tokens: int, context_tokens: int, field: str
) -> int:
    """How many tokens to generate at most; raises PromptTooLong when that can never fit.

    Unless the client says how many, the answer may fill the `room_tokens` that are left beside
    an adapter, and at least one token. `field` is where the client said it.
    """
    if max_tokens is None:
        return max(1, min(room_tokens, context_tokens) - prompt_tokens)
    if prompt_tokens + max_tokens > context_tokens:
        raise PromptTooLong(
            f"The prompt has {prompt_tokens} tokens and up to {max_tokens} more are asked for: "
            f"{prompt_tokens + max_tokens}; a prompt and its answer may have {context_tokens} "
            "together.",
            field=field,
            rule=f"at most {context_tokens - prompt_tokens}",
            value=max_tokens,
        )
    return max_tokens


def room_of(adapter: AdapterSpec | None, limits: WorkerLimits | None, context_tokens: int) -> int:
    """Tokens of KV that fit the pool beside the adapter, guessed low: packing wastes some."""
    if limits is None or adapter is None:
        return context_tokens
    adapter_bytes = adapter.parameters * ELEMENT_BYTES
    pages = PACKING_WASTE * -(-adapter_bytes // limits.page_bytes)
    return limits.pool_tokens - pages * limits.block_tokens
