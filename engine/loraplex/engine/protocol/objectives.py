"""Service-level objectives: upper limits that a request must meet, all of them, to be good."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

_LIMIT: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s)")
_SECONDS: Final = {"ms": 1e-3, "s": 1.0}


class Objective(StrEnum):
    TTFT = "ttft"
    """From the request's arrival to its first token."""
    TPOT = "tpot"
    """The mean time between its tokens after the first."""
    E2E = "e2e"
    """From its arrival to its last token."""


Objectives = Mapping[Objective, float]
"""Limits in seconds."""


class NoObjective(ValueError):
    """A part of a text says no objective, or one that was said before; `part` is it."""

    def __init__(self, part: str) -> None:
        super().__init__(
            f"{part.strip()!r} is no objective; write each once, like ttft=500ms,tpot=0.1s."
        )
        self.part = part


def parse_objectives(text: str) -> dict[Objective, float]:
    """`ttft=500ms,tpot=0.1s`; raises NoObjective."""
    objectives: dict[Objective, float] = {}
    for part in text.split(","):
        name, _, limit = (piece.strip() for piece in part.partition("="))
        found = _LIMIT.fullmatch(limit)
        if name not in set(Objective) or found is None or Objective(name) in objectives:
            raise NoObjective(part)
        objectives[Objective(name)] = float(found["number"]) * _SECONDS[found["unit"]]
    return objectives
