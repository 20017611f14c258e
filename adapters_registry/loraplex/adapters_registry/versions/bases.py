"""The base models there are, remembered for seconds: only an operator's deployment changes them."""

import time
from collections.abc import Callable, Collection, Sequence

from loraplex.adapters_registry.errors import ModelNotFound
from loraplex.adapters_registry.versions.repository import VersionRepository
from loraplex.adapters_registry.versions.views import ResolvedModel
from loraplex.engine.protocol.identity import Digest
from loraplex.platform.tenancy.principals import TenantPrincipal


class KnownBases:
    """Of one process. `served` are the names it serves; None stands for every registered one."""

    def __init__(
        self,
        served: Collection[str] | None,
        seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """What is found is remembered for `seconds`; that nothing is there never is."""
        self._served = served
        self._seconds = seconds
        self._monotonic = monotonic
        self._found: Sequence[ResolvedModel] = ()
        self._until = float("-inf")

    def serves(self, name: str) -> bool:
        return self._served is None or name in self._served

    async def all(self, rows: VersionRepository) -> Sequence[ResolvedModel]:
        """Every base that is served, by name."""
        begun = self._monotonic()
        if self._found and begun < self._until:
            return self._found
        # Plain values: rows would be of no use once their session is rolled back.
        self._found = [
            ResolvedModel(
                base.name, Digest(base.digest), base.name, int(base.created_at.timestamp())
            )
            for base in await rows.bases()
            if self.serves(base.name)
        ]
        self._until = begun + self._seconds
        return self._found

    def remembered(self, principal: TenantPrincipal, model: str) -> ResolvedModel | None:
        """`base_among` what is remembered now."""
        is_fresh = self._monotonic() < self._until
        return base_among(self._found, principal, model) if is_fresh else None


def base_among(
    bases: Sequence[ResolvedModel], principal: TenantPrincipal, model: str
) -> ResolvedModel | None:
    """The base of this name; raises ModelNotFound where the credential may not call it."""
    for base in bases:
        if base.base_name == model:
            check_may_call(principal, base.base_name, model)
            return base
    return None


def check_may_call(principal: TenantPrincipal, name: str, model: str) -> None:
    """Raise ModelNotFound for what the credential is not for, whether or not it exists."""
    if not principal.may_call(name):
        raise ModelNotFound(model, " This key is for other models.")
