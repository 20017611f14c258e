"""What service costs, in tokens: the one unit in which tenants are compared."""

from typing import Final

OUTPUT_TOKEN_COST: Final = 2.0
"""An output token has a step of its own, an input token shares one: the weights of VTC."""


def input_cost(computed_tokens: int) -> float:
    """Of a prompt; what the prefix cache spares costs nothing."""
    return float(computed_tokens)


def output_cost(tokens: int) -> float:
    return OUTPUT_TOKEN_COST * tokens


def load_cost(pages: int, block_tokens: int) -> float:
    """Of an adapter's load: the tokens whose KV would fill the pages that it writes."""
    return float(pages * block_tokens)
