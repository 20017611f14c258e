"""What is known of adapters whether they are resident or not: how often used, how long to load."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.identity import Digest, TenantNamespace

AdapterKey = tuple[TenantNamespace, Digest]
"""The namespace is part of it, so that no tenant learns from timing what another has resident."""

_HALF_LIFE_USES: Final = 4096
"""Uses of any adapter after which an earlier use counts half: fame must not outlive demand."""

_KEPT: Final = 16384
_OUTLIER: Final = 4.0
"""A load this many times slower or faster than the average says more about the moment."""


def key_of(ref: AdapterRef) -> AdapterKey:
    return ref.namespace, ref.spec.digest


@dataclass(slots=True)
class AdapterUsage:
    """`uses` as they stood at use number `counted_at` of the engine."""

    uses: float = 0.0
    counted_at: int = 0
    loads: int = 0
    load_seconds: float = 0.0
    """Of a load, averaged over the loads with the later ones counting more."""


class UsageHistory:
    """Usage by adapter; those used or loaded last are kept, far more than are ever resident.

    An adapter's uses survive its eviction: otherwise each return would begin as a stranger, and the
    long tail of rare adapters would push out the popular ones one after another.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[AdapterKey, AdapterUsage] = OrderedDict()
        self._uses = 0
        self._seconds_per_page = 0.0

    def of(self, key: AdapterKey) -> AdapterUsage:
        usage = self._kept.get(key)
        if usage is None:
            usage = self._kept[key] = AdapterUsage()
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return usage

    def loads_of(self, key: AdapterKey) -> int:
        usage = self._kept.get(key)
        return 0 if usage is None else usage.loads

    def record_use(self, key: AdapterKey) -> None:
        usage = self.of(key)
        self._uses += 1
        usage.uses = self._decayed(usage) + 1.0
        usage.counted_at = self._uses

    def recent_uses(self, key: AdapterKey) -> float:
        """Uses, older ones counting less; at least 1, since it was loaded for somebody."""
        return max(1.0, self._decayed(self.of(key)))

    def record_load(self, key: AdapterKey, seconds: float, pages: int) -> None:
        """A load that succeeded. A moment's delay does not make an adapter precious."""
        usage = self.of(key)
        usage.loads += 1
        if self._seconds_per_page:
            usual = self._seconds_per_page * pages
            seconds = min(max(seconds, usual / _OUTLIER), usual * _OUTLIER)
            self._seconds_per_page += 0.1 * (seconds / pages - self._seconds_per_page)
        else:
            self._seconds_per_page = seconds / pages
        if usage.loads == 1:
            usage.load_seconds = seconds
        else:
            usage.load_seconds += 0.5 * (seconds - usage.load_seconds)

    def _decayed(self, usage: AdapterUsage) -> float:
        return float(usage.uses * 0.5 ** ((self._uses - usage.counted_at) / _HALF_LIFE_USES))
