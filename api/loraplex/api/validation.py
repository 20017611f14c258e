"""Turns pydantic's findings into one refusal that names the field and the rule, never the input."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import pydantic
import pydantic_core
from pydantic import BaseModel
from starlette.requests import Request

from loraplex.api.refusals import (
    InvalidJson,
    InvalidValue,
    MissingParameter,
    RouteNotFound,
    UnknownParameter,
    UnsupportedParameter,
)
from loraplex.engine.protocol.errors import DomainError

M = TypeVar("M", bound=BaseModel)
NAME_CHARACTERS = 64
NUL, NUL_IN_JSON, NUL_IN_QUERY = "\0", b"\\u0000", b"%00"
NUL_RULE = "text without NUL characters"
MAX_NAMES = 2048


async def read_json(request: Request, *, is_stored: bool = True) -> dict[str, Any]:
    """The request's body as a JSON object without its nulls; raises InvalidJson.

    NaN and Infinity are let through, so that the field they stand in can be named. What
    `is_stored` has no NUL character in a text; raises InvalidValue.
    """
    body = await request.body()
    try:
        value = pydantic_core.from_json(body, allow_inf_nan=True)
    except ValueError as error:
        raise InvalidJson(f"The body is not valid JSON: {error}.") from None
    if not isinstance(value, dict):
        raise InvalidJson("The body must be a JSON object.", rule="a JSON object")
    if is_stored and NUL_IN_JSON in body:
        refuse_nul(value)
    found: dict[str, Any] = without_nulls(value)
    return found


def refuse_nul(value: Any, place: tuple[str | int, ...] = ()) -> None:
    """Raise InvalidValue if a text in `value` has a NUL character, which Postgres cannot store."""
    if isinstance(value, dict):
        for name, item in value.items():
            refuse_nul(name, place)
            refuse_nul(item, (*place, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            refuse_nul(item, (*place, index))
    elif isinstance(value, str) and NUL in value:
        field = parameter_name(place)
        raise InvalidValue(f"`{field}` should be {NUL_RULE}.", field=field, rule=NUL_RULE)


def refuse_nul_in_address(path: str, query: bytes) -> None:
    """The same for what a URL says: nothing has such a name, and no parameter such a value.

    Raises RouteNotFound and InvalidValue.
    """
    if NUL in path:
        raise RouteNotFound("There is nothing at this path.")
    if NUL_IN_QUERY in query:
        for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
            refuse_nul({name: value})


def without_nulls(value: Any) -> Any:
    """A null says the same as an absent field, at any depth of objects.

    Raises InvalidJson for an object of absurdly many names, each of which could be a finding.
    """
    if isinstance(value, dict):
        if len(value) > MAX_NAMES:
            raise InvalidJson(
                f"An object of the body has {len(value)} names.",
                rule=f"at most {MAX_NAMES} names in one object",
                value=len(value),
            )
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [without_nulls(item) for item in value]
    return value


def validate(model: type[M], value: Mapping[str, Any], unserved: Mapping[str, str] = {}) -> M:
    """`value` as a `model`. `unserved` tells, by parameter, what is known and not served.

    Raises the DomainError of the first thing wrong; what is not served comes first.
    """
    for name, why in unserved.items():
        if name in value:
            raise UnsupportedParameter(f"`{name}` is not served: {why}", field=name, rule=why)
    try:
        return model.model_validate(value)
    except pydantic.ValidationError as error:
        raise refusal(error.errors(include_url=False, include_context=False)) from None


def refusal(findings: Sequence[Any], *, skip: int = 0) -> DomainError:
    """The DomainError of pydantic's first finding; `skip` leading parts of its place are left out.

    Only numbers are repeated as `value`: a string may be a secret in the wrong field.
    """
    finding = findings[0]
    field = parameter_name(finding["loc"][skip:])
    kind = finding["type"]
    if kind == "missing":
        return MissingParameter(f"`{field}` is required.", field=field, rule="required")
    if kind == "extra_forbidden":
        return UnknownParameter(
            f"`{field}` is not a parameter of this route.", field=field, rule="known parameters"
        )
    rule = _rule(finding)
    number = finding.get("input")
    value = number if isinstance(number, int | float) and not isinstance(number, bool) else None
    if isinstance(value, float) and value - value != 0:
        value = None  # JSON has no word for infinities
    got = "" if value is None else f", not {value}"
    return InvalidValue(f"`{field}` should be {rule}{got}.", field=field, rule=rule, value=value)


def parameter_name(place: Sequence[str | int]) -> str:
    """`messages[0].content` for ("messages", 0, "content"); tags in parentheses do not show."""
    name = ""
    for part in place:
        if isinstance(part, int):
            name += f"[{part}]"
        elif not part.startswith("("):
            short = part if len(part) <= NAME_CHARACTERS else part[:NAME_CHARACTERS] + "…"
            name += f".{short}" if name else short
    return name or "body"


def _rule(finding: Any) -> str:
    message: str = finding["msg"]
    for start in ("Input should be ", "Value error, "):
        if message.startswith(start):
            return message.removeprefix(start)
    # "String should have at least 1 character", "List should have at most 4 items after …"
    subject, _, rest = message.partition(" should have ")
    if rest:
        article = "an" if subject[:1] in "AEIOU" else "a"
        return f"{article} {subject.lower()} with {rest}"
    return message
