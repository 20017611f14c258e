"""Objectives are read exactly or refused by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.benchmarks.errors import InvalidWorkload
from loraplex.engine.benchmarks.serve.slo import parse_slo
from loraplex.engine.protocol.objectives import Objective

LIMITS = st.dictionaries(
    st.sampled_from(Objective), st.tuples(st.integers(0, 10**6), st.sampled_from(["ms", "s"]))
).filter(bool)


@given(LIMITS, st.sampled_from([",", ", ", " , "]))
def test_every_objective_is_read_in_seconds(
    limits: dict[Objective, tuple[int, str]], comma: str
) -> None:
    text = comma.join(f"{name}={number}{unit}" for name, (number, unit) in limits.items())
    seconds = {"ms": 1e-3, "s": 1.0}
    assert parse_slo(text) == {name: n * seconds[unit] for name, (n, unit) in limits.items()}


def test_fractions_are_read() -> None:
    assert parse_slo("tpot=0.25s") == {Objective.TPOT: 0.25}


@pytest.mark.parametrize(
    "text",
    ["", "ttft", "ttft=500", "ttft=fast", "itl=3ms", "ttft=1s,ttft=2s", "ttft=-1s", "ttft=1s,"],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidWorkload) as refused:
        parse_slo(text)
    assert refused.value.field == "slo"


@given(st.text(max_size=30))
def test_no_text_does_worse_than_be_refused(text: str) -> None:
    try:
        parse_slo(text)
    except InvalidWorkload as refused:
        assert refused.message
