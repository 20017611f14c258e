"""Service-level objectives: upper limits that a request must meet, all of them, to be good."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from loraplex.engine.benchmarks.errors import InvalidWorkload

_LIMIT: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s)")
_SECONDS: Final = {"ms": 1e-3, "s": 1.0}


class Metric(StrEnum):
    TTFT = "ttft"
    TPOT = "tpot"
    E2E = "e2e"


Slo = Mapping[Metric, float]
"""Limits in seconds."""


def parse_slo(text: str) -> dict[Metric, float]:
    """`ttft=500ms,tpot=0.1s`; raises InvalidWorkload naming the part that is wrong."""
    slo: dict[Metric, float] = {}
    for part in text.split(","):
        name, _, limit = (piece.strip() for piece in part.partition("="))
        found = _LIMIT.fullmatch(limit)
        if name not in set(Metric) or found is None or Metric(name) in slo:
            raise InvalidWorkload(
                f"{part.strip()!r} is no objective; write each once, like ttft=500ms,tpot=0.1s.",
                field="slo",
                rule="NAME=NUMBER and ms or s, separated by commas",
                value=part,
            )
        slo[Metric(name)] = float(found["number"]) * _SECONDS[found["unit"]]
    return slo
