"""Totals of several processes are what prometheus_client's own collector makes of them."""

import os
import subprocess
import sys
from pathlib import Path

from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from loraplex.platform.shared_totals import SharedTotals

COUNT = r"""
import sys
from prometheus_client import CollectorRegistry, Counter, Histogram
registry = CollectorRegistry()
plain = Counter("plain", "Without labels.", registry=registry)
odd = Counter("odd", 'A "quoted" \\ help\nin two lines.', ["b", "a"], registry=registry)
seconds = Histogram("x:seconds", "Of something.", ["w"], buckets=(0.1, 1, 10), registry=registry)
for number in map(float, sys.argv[1:]):
    plain.inc(number)
    odd.labels('say "no"\n', "\\").inc()
    for value in (0.05, 0.5, 5, 50):
        seconds.labels("it").observe(number * value)
"""


def test_what_processes_counted_is_added_up_and_read_by_prometheus_parser(tmp_path: Path) -> None:
    environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    totals = SharedTotals()
    for numbers in (["1", "2.5"], ["3"], []):
        subprocess.run([sys.executable, "-c", COUNT, *numbers], env=environment, check=True)
        assert told(totals.text(tmp_path)) == expected(tmp_path)
    assert ("plain_total", ()) in told(totals.text(tmp_path))


def told(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def expected(folder: Path) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    collector = MultiProcessCollector(None, str(folder))  # type: ignore[no-untyped-call]
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in collector.collect()  # type: ignore[no-untyped-call]
        for sample in family.samples
    }
