"""The four ops as the dispatcher calls them: their launches, started in order.

Nothing here waits for the device or reads from it, and every grid follows from shapes, so all of
it can be captured in a graph whose buffers are then rewritten in place. What a graph does not use
is neutral: a segment that ends where it starts, a slot below 0, a sequence without tokens or
without context (its rows become 0).
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from loraplex.engine.kernels.triton.attention import attention_launches
from loraplex.engine.kernels.triton.expand import expand_launches
from loraplex.engine.kernels.triton.launch import Launch
from loraplex.engine.kernels.triton.shrink import shrink_launches
from loraplex.engine.kernels.triton.write_kv import write_kv_launches

P = ParamSpec("P")
T = TypeVar("T")


def _op(launches: Callable[P, tuple[list[Launch], T]]) -> Callable[P, T]:
    """An op of the same parameters: it starts the launches and returns what they fill."""

    def op(*arguments: P.args, **named: P.kwargs) -> T:
        to_start, filled = launches(*arguments, **named)
        for launch in to_start:
            launch.run()
        return filled

    return op


sgmv_shrink = _op(shrink_launches)
sgmv_expand = _op(expand_launches)
write_kv = _op(write_kv_launches)
paged_attention = _op(attention_launches)
