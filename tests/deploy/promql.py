"""Which series and labels a PromQL query asks for."""

from collections.abc import Iterator
from dataclasses import dataclass

import promql_parser as promql

VARIABLES = {"$__rate_interval": "5m"}


@dataclass(frozen=True)
class Wanted:
    """A series, the values its labels must have (by equality), and labels it must have at all."""

    name: str
    values: tuple[tuple[str, str], ...]
    labels: frozenset[str]


def wanted_by(query: str) -> list[Wanted]:
    """Raises ValueError where the query is no PromQL."""
    for variable, value in VARIABLES.items():
        query = query.replace(variable, value)
    return list(_walk(promql.parse(query), frozenset()))


def _walk(expression: object, grouped: frozenset[str]) -> Iterator[Wanted]:
    match expression:
        case promql.AggregateExpr():
            modifier = expression.modifier
            by = set(modifier.labels) if modifier is not None else set()
            yield from _walk(expression.expr, grouped | by)
        case promql.Call():
            for argument in expression.args:
                yield from _walk(argument, grouped)
        case promql.BinaryExpr():
            yield from _walk(expression.lhs, grouped)
            yield from _walk(expression.rhs, grouped)
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            yield from _walk(expression.expr, grouped)
        case promql.MatrixSelector():
            yield from _walk(expression.vector_selector, grouped)
        case promql.VectorSelector():
            matchers = expression.matchers.matchers
            assert expression.name, "our queries name what they ask for"
            yield Wanted(
                expression.name,
                tuple((one.name, one.value) for one in matchers if one.op is promql.MatchOp.Equal),
                grouped | {one.name for one in matchers},
            )
        case promql.NumberLiteral() | promql.StringLiteral():
            return
        case _:
            raise AssertionError(f"nobody has taught this test of {type(expression)}")
