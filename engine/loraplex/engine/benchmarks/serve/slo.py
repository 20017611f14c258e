"""The objectives that a benchmark is told, refused by name where they are none."""

from loraplex.engine.benchmarks.errors import InvalidWorkload
from loraplex.engine.protocol.objectives import NoObjective, Objective, parse_objectives


def parse_slo(text: str) -> dict[Objective, float]:
    """`ttft=500ms,tpot=0.1s`; raises InvalidWorkload naming the part that is wrong."""
    try:
        return parse_objectives(text)
    except NoObjective as error:
        raise InvalidWorkload(
            str(error),
            field="slo",
            rule="NAME=NUMBER and ms or s, separated by commas",
            value=error.part,
        ) from None
