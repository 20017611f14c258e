"""References to adapters as workers take them, and who tells the workers of them ahead of time."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.versions.views import ResolvedModel
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.platform.pools.fleet import WorkerFleet
from loraplex.platform.tenancy.principals import TenantPrincipal

PRESIGNED_SECONDS: Final = 3600
"""How long a worker may take to come to fetching the adapter, at least half of it."""
HOT_SECONDS: Final = 10.0
"""An adapter used so recently needs not be told of again: it is near, or on its way."""
KEPT: Final = 1024


@dataclass
class Known:
    ref: AdapterRef
    signed_at: float
    told_at: float = float("-inf")


class AdapterRefs:
    """Of one gateway; a URL is signed once and used for half its time."""

    def __init__(
        self,
        objects: ObjectStore,
        fleet: WorkerFleet,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._objects = objects
        self._fleet = fleet
        self._clock = clock
        self._known: OrderedDict[tuple[str, str], Known] = OrderedDict()

    def of(self, principal: TenantPrincipal, resolved: ResolvedModel) -> AdapterRef | None:
        """What a worker needs to have the adapter; None for the base itself."""
        known = self._know(principal, resolved)
        return None if known is None else known.ref

    def foretell(
        self, principal: TenantPrincipal, resolved: ResolvedModel, *, everywhere: bool = False
    ) -> None:
        """Have the adapter come nearer, for a request that will come; never waits."""
        known = self._know(principal, resolved)
        if known is None:
            return
        now = self._clock()
        if everywhere or now - known.told_at > HOT_SECONDS:
            self._fleet.foretell(resolved.base_name, [known.ref], everywhere=everywhere)
        known.told_at = now

    def _know(self, principal: TenantPrincipal, resolved: ResolvedModel) -> Known | None:
        if resolved.spec is None:
            return None
        assert resolved.weights_key is not None, "a version with a spec has weights"
        key = principal.namespace, resolved.spec.digest
        known = self._known.get(key)
        if known is None or self._clock() - known.signed_at > PRESIGNED_SECONDS / 2:
            url = self._objects.presign_get(resolved.weights_key, PRESIGNED_SECONDS)
            ref = AdapterRef(spec=resolved.spec, namespace=principal.namespace, url=url)
            known = self._known[key] = Known(ref, self._clock())
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return known
