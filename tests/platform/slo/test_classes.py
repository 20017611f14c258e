"""Classes of service are read exactly or refused by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.protocol.errors import DomainError
from loraplex.engine.protocol.generation import Priority
from loraplex.engine.protocol.objectives import Objective
from loraplex.platform.settings import Settings
from loraplex.platform.slo.classes import (
    MOST_CLASSES,
    InvalidSloClasses,
    SloClasses,
    UnknownSloClass,
)


def test_each_class_has_its_objectives() -> None:
    classes = SloClasses.parse("fast : ttft=500ms, tpot=0.05s ; slow", "slow")
    assert classes.named("fast").objectives == {Objective.TTFT: 0.5, Objective.TPOT: 0.05}
    assert classes.default.name == "slow"
    assert classes.default.objectives == {}


def test_each_class_has_its_place_in_line() -> None:
    classes = SloClasses.parse(
        "fast: ttft=1s, priority=interactive, fair_weight=2.5; usual; slow: priority=batch", "usual"
    )
    fast, usual, slow = classes.by_name.values()
    assert (fast.priority, fast.fair_weight) == (Priority.INTERACTIVE, 2.5)
    assert fast.objectives == {Objective.TTFT: 1.0}
    assert (usual.priority, usual.fair_weight) == (Priority.STANDARD, 1.0)
    assert (slow.priority, slow.fair_weight, slow.objectives) == (Priority.BATCH, 1.0, {})


@pytest.mark.parametrize(
    "description",
    [
        "priority=urgent",
        "priority",
        "priority=batch,priority=batch",
        "fair_weight=0",
        "fair_weight=0.0",
        "fair_weight=-1",
        "fair_weight=inf",
        "fair_weight=nan",
        "fair_weight=١",
        "fair_weight=1,",
    ],
)
def test_no_other_place_in_line_is_understood(description: str) -> None:
    with pytest.raises(InvalidSloClasses):
        SloClasses.parse(f"a:{description}", "a")


def test_the_settings_own_classes_can_be_read() -> None:
    settings = Settings()
    classes = SloClasses.parse(settings.slo_classes, settings.slo_default_class)
    assert {one.name: one.priority.name.lower() for one in classes.by_name.values()} == {
        name: name for name in ("interactive", "standard", "batch")
    }


@pytest.mark.parametrize(
    "text", ["", "Fast", "a;a", "a:", "a:ttft", "a:ttft=1", "a:ttft=1s,ttft=2s", "a b", "a;"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidSloClasses) as refused:
        SloClasses.parse(text, "a")
    assert refused.value.field == "LORAPLEX_SLO_CLASSES"


def test_classes_are_few_since_each_is_a_label() -> None:
    with pytest.raises(InvalidSloClasses):
        SloClasses.parse(";".join(f"c{n}" for n in range(MOST_CLASSES + 1)), "c0")


def test_a_class_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(UnknownSloClass) as refused:
        SloClasses.parse("fast;slow", "none")
    assert refused.value.rule == "one of fast, slow"


@given(st.text(max_size=40))
def test_no_text_does_worse_than_be_refused(text: str) -> None:
    try:
        SloClasses.parse(text, "a")
    except DomainError as refused:
        assert refused.message
