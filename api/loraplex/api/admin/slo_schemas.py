"""Bodies of the routes that choose classes of service."""

from typing import Annotated
from uuid import UUID

from pydantic import StringConstraints

from loraplex.api.schemas import WireModel
from loraplex.platform.slo.classes import PriorityName


class SloOrder(WireModel):
    """The class's name; left out, the choice is taken back."""

    slo_class: Annotated[str, StringConstraints(min_length=1, max_length=32)] | None = None


class SloClass(WireModel):
    """A class of service: what it promises, in seconds, and whose turn it is where all wait."""

    name: str
    is_default: bool
    priority: PriorityName
    fair_weight: float
    objectives: dict[str, float]


class SloClassList(WireModel):
    data: list[SloClass]


class SloChoice(WireModel):
    """What was chosen; no `key_id` means all of the tenant's keys."""

    key_id: UUID | None
    slo_class: str


class SloChoices(WireModel):
    data: list[SloChoice]
