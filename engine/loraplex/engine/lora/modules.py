"""Numbers the base model's linears, and groups those that read the same activation."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from loraplex.engine.protocol.adapter import AdapterModule, AdapterSpec
from loraplex.engine.protocol.errors import AdapterUnavailable
from loraplex.engine.protocol.module_table import LinearModule, ModuleTable

LINEARS: Final = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True, eq=False)  # each is one object, so that a look-up hashes no fields
class LinearGroup:
    """Linears of one layer that share their input and write side by side into one output."""

    index: int
    start: int
    end: int


QKV: Final = LinearGroup(0, 0, 3)
OUTPUT: Final = LinearGroup(1, 3, 4)
GATE_UP: Final = LinearGroup(2, 4, 6)
DOWN: Final = LinearGroup(3, 6, 7)
GROUPS: Final = (QKV, OUTPUT, GATE_UP, DOWN)


class ModuleNumbers:
    """A linear's number is `layer * 7 + its place in LINEARS`."""

    def __init__(self, table: ModuleTable) -> None:
        self._table = table
        self._by_path = table.by_path()
        self._ends = {end.path: end for end in table.ends}
        self.count = table.layers * len(LINEARS)
        self.widest = max(max(m.in_features, m.out_features) for m in table.modules)

    def number(self, module: AdapterModule) -> int:
        """Raises AdapterUnavailable where the adapter does not fit this base."""
        linear = self._by_path.get(module.path)
        if linear is None or not _fits(module, linear):
            raise self._misfit(module.path)
        return _number(linear)

    def check_end(self, module: AdapterModule) -> None:
        """As `number`, of an embedding or a head."""
        end = self._ends.get(module.path)
        if end is None or not _fits(module, end):
            raise self._misfit(module.path)

    def linears(self, paths: Iterable[str]) -> Iterator[tuple[int, LinearModule]]:
        """Numbers and linears by path. Raises AdapterUnavailable where one is not the base's."""
        for path in paths:
            linear = self._by_path.get(path)
            if linear is None:
                raise self._misfit(path)
            yield _number(linear), linear

    def check_base(self, spec: AdapterSpec) -> None:
        if spec.base_digest != self._table.base_digest:
            raise AdapterUnavailable(
                f"The adapter was made for another base than {self._table.base_name}.",
                field="adapter",
                rule=f"base {self._table.base_digest}",
                value=spec.base_digest,
            )

    def _misfit(self, path: str) -> AdapterUnavailable:
        return AdapterUnavailable(
            f"The adapter's module {path} does not fit {self._table.base_name}.",
            field="adapter",
            rule="modules and shapes of the base model",
            value=path,
        )


def _number(linear: LinearModule) -> int:
    return linear.layer * len(LINEARS) + LINEARS.index(linear.linear)


def _fits(module: AdapterModule, linear: LinearModule) -> bool:
    vectors = [vector for vector in (module.bias, module.magnitude) if vector is not None]
    return (
        module.a.shape == (module.rank, linear.in_features)
        and module.b.shape == (linear.out_features, module.rank)
        and all(vector.shape == (1, linear.out_features) for vector in vectors)
    )
