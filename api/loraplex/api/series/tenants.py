"""Which tenants have a label of their own, so that labels stay few whatever their number."""

from collections.abc import Iterable

OTHER = "other"


class TenantLabels:
    """The first `most` tenants that come have their name as a label; all after them are `other`.

    A label once given stays: a series that stopped would look like a tenant that left.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._named: set[str] = set()

    def prefer(self, names: Iterable[str]) -> None:
        """Give these tenants labels, the first first, as far as there are any left."""
        for name in names:
            self.of(name)

    def of(self, name: str) -> str:
        if name in self._named:
            return name
        if len(self._named) >= self._most:
            return OTHER
        self._named.add(name)
        return name
