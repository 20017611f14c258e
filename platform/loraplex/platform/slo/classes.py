"""The classes of service that an operator has set up: what is promised, and whose turn it is."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

from loraplex.engine.protocol.errors import DomainError, Kind
from loraplex.engine.protocol.generation import Priority
from loraplex.engine.protocol.objectives import (
    NoObjective,
    Objective,
    Objectives,
    parse_objectives,
)

CLASS_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
FAIR_WEIGHT = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4})?")
PriorityName = Literal["interactive", "standard", "batch"]
PRIORITY_NAMES: Mapping[Priority, PriorityName] = {
    Priority.INTERACTIVE: "interactive",
    Priority.STANDARD: "standard",
    Priority.BATCH: "batch",
}
MOST_CLASSES = 8
"""Each is a value of a label, beside every tenant's."""


class InvalidSloClasses(DomainError):
    """The setting of the classes cannot be read."""

    kind, code, field = Kind.INVALID, "invalid_slo_classes", "LORAPLEX_SLO_CLASSES"
    rule = "NAME:WHAT;… like interactive:priority=interactive,ttft=1s,tpot=100ms;batch"

    def __init__(self, reason: str, value: str) -> None:
        super().__init__(f"LORAPLEX_SLO_CLASSES cannot be read: {reason}", value=value)


class UnknownSloClass(DomainError):
    """There is no class of service of this name."""

    kind, code, field = Kind.INVALID, "unknown_slo_class", "slo_class"

    def __init__(self, name: str, known: Mapping[str, "SloClass"]) -> None:
        classes = ", ".join(known)
        message = f"There is no class of service {name[:64]!r}; there are {classes}."
        super().__init__(message, rule=f"one of {classes}", value=name[:64])


@dataclass(frozen=True, slots=True)
class SloClass:
    """A class and what it promises; without objectives every answer that does not fail is good.

    Where not everybody can run, requests of a higher priority start first, and a tenant of fair
    weight 2 gets twice the tokens of one of weight 1.
    """

    name: str
    objectives: Objectives
    priority: Priority = Priority.STANDARD
    fair_weight: float = 1.0

    @classmethod
    def parse(cls, name: str, text: str) -> Self:
        """`priority=interactive,fair_weight=2,ttft=1s`; raises NoObjective, InvalidSloClasses."""
        own: dict[str, str] = {}
        objectives = []
        for part in text.split(","):
            key, _, value = (piece.strip() for piece in part.partition("="))
            if key not in ("priority", "fair_weight"):
                objectives.append(part)
            elif key in own:
                raise InvalidSloClasses(f"{name!r} says its {key} twice.", part)
            else:
                own[key] = value
        priority = own.get("priority", "standard")
        by_name: dict[str, Priority] = {said: one for one, said in PRIORITY_NAMES.items()}
        if priority not in by_name:
            known = ", ".join(by_name)
            raise InvalidSloClasses(f"{priority!r} is none of the priorities {known}.", priority)
        weight = own.get("fair_weight", "1")
        if not FAIR_WEIGHT.fullmatch(weight) or float(weight) == 0:
            raise InvalidSloClasses(f"{weight!r} is no weight like 2 or 0.5.", weight)
        return cls(
            name,
            parse_objectives(",".join(objectives)) if objectives else {},
            by_name[priority],
            float(weight),
        )

    def missed(self, ttft: float | None, tpot: float | None, e2e: float | None) -> Objective | None:
        """The first objective that these seconds miss; None counts as not measured."""
        measured = ((Objective.TTFT, ttft), (Objective.TPOT, tpot), (Objective.E2E, e2e))
        for objective, seconds in measured:
            limit = self.objectives.get(objective)
            if limit is not None and seconds is not None and seconds > limit:
                return objective
        return None


@dataclass(frozen=True)
class SloClasses:
    """All classes by name, and the one of whoever was given none."""

    by_name: Mapping[str, SloClass]
    default: SloClass

    @classmethod
    def parse(cls, text: str, default: str) -> Self:
        """`fast:priority=interactive,ttft=1s;slow`; raises InvalidSloClasses, UnknownSloClass."""
        classes: dict[str, SloClass] = {}
        for part in text.split(";"):
            name, colon, description = (piece.strip() for piece in part.partition(":"))
            if not CLASS_NAME.fullmatch(name) or name in classes:
                raise InvalidSloClasses(f"{name!r} names no class, or one twice.", part)
            try:
                classes[name] = SloClass.parse(name, description) if colon else SloClass(name, {})
            except NoObjective as error:
                raise InvalidSloClasses(str(error), error.part) from None
        if len(classes) > MOST_CLASSES:
            raise InvalidSloClasses(f"there are more than {MOST_CLASSES} classes.", text)
        if default not in classes:
            raise UnknownSloClass(default, classes)
        return cls(classes, classes[default])

    def named(self, name: str) -> SloClass:
        """Raises UnknownSloClass."""
        found = self.by_name.get(name)
        if found is None:
            raise UnknownSloClass(name, self.by_name)
        return found
