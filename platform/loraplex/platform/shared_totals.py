"""Adds up what processes counted in their shared folder, and writes it as Prometheus reads it.

prometheus_client's own collector parses, sorts and formats every series anew at each scrape, which
for a few hundred tenants takes seconds. Here what a series is called is worked out once; a scrape
adds numbers.
"""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.mmap_dict import MmapedDict

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Total:
    """One value over all processes, and what stands before it in its line."""

    head: str
    value: float = 0.0


@dataclass(slots=True)
class Distribution:
    """A histogram's values for one set of labels: each bucket apart, added up where written."""

    count_head: str
    buckets: list[tuple[float, Total]] = field(default_factory=list)
    sum: Total | None = None

    def lines(self) -> Iterator[str]:
        count = 0.0
        for _, bucket in self.buckets:
            count += bucket.value
            yield f"{bucket.head} {count}\n"
        if self.sum is not None:
            yield f"{self.sum.head} {self.sum.value}\n"
        yield f"{self.count_head} {count}\n"


@dataclass(slots=True)
class Family:
    """One metric's series."""

    head: str
    totals: list[Total] = field(default_factory=list)
    distributions: dict[Labels, Distribution] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        yield self.head
        for total in self.totals:
            yield f"{total.head} {total.value}\n"
        for distribution in self.distributions.values():
            yield from distribution.lines()


class SharedTotals:
    """Counters and histograms of one folder. One thread at a time."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}
        self._totals: dict[str, Total] = {}
        """By the key that prometheus_client writes."""

    def text(self, folder: Path) -> str:
        """Every series, as of now."""
        for total in self._totals.values():
            total.value = 0.0
        for kind in ("counter", "histogram"):
            self._add(kind, folder.glob(f"{kind}_*.db"))
        families = (self._families[name] for name in sorted(self._families))
        return "".join(line for family in families for line in family.lines())

    def _add(self, kind: str, files: Iterable[Path]) -> None:
        for file in files:
            values = MmapedDict.read_all_values_from_file(str(file))  # type: ignore[no-untyped-call]
            for key, value, *_ in values:
                total = self._totals.get(key)
                if total is None:
                    total = self._totals[key] = self._place(kind, key)
                total.value += value

    def _place(self, kind: str, key: str) -> Total:
        """A new series, in its family."""
        family_name, name, labels, help_text = json.loads(key)
        family = self._families.get(family_name)
        if family is None:
            shown = f"{family_name}_total" if kind == "counter" else family_name
            text = help_text.replace("\\", r"\\").replace("\n", r"\n")
            head = f"# HELP {shown} {text}\n# TYPE {shown} {kind}\n"
            family = self._families[family_name] = Family(head)
        total = Total(line_head(name, labels))
        if kind == "counter":
            family.totals.append(total)
            return total
        bound = labels.pop("le", None)
        whose = tuple(sorted(labels.items()))
        distribution = family.distributions.get(whose)
        if distribution is None:
            distribution = Distribution(line_head(f"{family_name}_count", labels))
            family.distributions[whose] = distribution
        if bound is None:
            distribution.sum = total
        else:
            distribution.buckets.append((math.inf if bound == "+Inf" else float(bound), total))
            distribution.buckets.sort(key=lambda bucket: bucket[0])
        return total


def line_head(name: str, labels: dict[str, str]) -> str:
    """`name{label="value"}` with what a value may not hold escaped."""
    if not labels:
        return name
    inside = ",".join(f'{label}="{_escaped(labels[label])}"' for label in sorted(labels))
    return f"{name}{{{inside}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
