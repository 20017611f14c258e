"""What tests of the core on a tiny model have in common."""

from typing import Any

import torch

from loraplex.engine.core import EngineCore
from loraplex.engine.protocol.adapter import AdapterRef
from tests.engine.driving import greedy, request, run
from tests.engine.tiny import VOCABULARY

PROMPT = [int(n) for n in torch.randint(3, VOCABULARY, (60,), generator=torch.manual_seed(1))]
PAGE_BYTES = 2 * 4 * 2 * 2 * 8 * 4
"""Of the tiny model: layers x tokens x (key, value) x heads x elements of float32."""


def adapter_pages(make: Any, ref: AdapterRef) -> int:
    engine = make()
    run(engine, request("r", PROMPT[:2], greedy(1), ref))
    pages: int = engine.load().adapter_pages
    return pages


def nobody_holds_pages(engine: EngineCore) -> bool:
    """Whether all pages are free, or blocks that leave when they are needed."""
    load = engine.load()
    return load.free_pages + load.cached_pages == engine.limits().pool_pages
