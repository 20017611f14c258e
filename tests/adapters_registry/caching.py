"""What tests of a node's cache fetch, and what they find in its folder."""

from loraplex.adapters_registry.residency import NodeCache

DATA = bytes(range(256)) * 40


BUDGET_BYTES = 1_000_000


def files(cache: NodeCache) -> set[str]:
    return {path.suffix for path in cache.cache_dir.glob("*/*")}
