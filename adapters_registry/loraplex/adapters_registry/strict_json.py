"""Reads JSON that a stranger wrote: bounded depth and size, no repeated keys, no NaN."""

import json
import re
from collections import Counter
from typing import Any, Never

# Possessive quantifiers and the \Z alternative keep this linear on hostile input: no text is
# scanned twice, not even after an unterminated string.
TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|[\[\]{},]', re.DOTALL)


class JsonRefused(ValueError):
    """The text is not JSON or breaks a bound; the message completes `the file …`."""


def parse_strictly(data: bytes, *, max_depth: int, max_items: int) -> Any:
    """The value of a UTF-8 JSON text.

    `max_depth` bounds nesting and `max_items` the commas outside strings, both before anything is
    allocated. Raises JsonRefused.
    """
    check_structure(data, max_depth, max_items)
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=without_repeats,
            parse_constant=refuse_constant,
            parse_float=finite_float,
        )
    except JsonRefused:
        raise
    except UnicodeDecodeError:
        raise JsonRefused("is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise JsonRefused(f"is not valid JSON ({error.msg} at {place})") from None
    except ValueError:  # an integer of more digits than Python converts
        raise JsonRefused("holds a number too long to be one") from None


def check_structure(data: bytes, max_depth: int, max_items: int) -> None:
    depth = items = 0
    for match in TOKEN.finditer(data):
        token = data[match.start()]
        if token in b"[{":
            depth += 1
            if depth > max_depth:
                raise JsonRefused(f"nests deeper than {max_depth} levels")
        elif token in b"]}":
            depth -= 1
        elif token == ord(","):
            items += 1
            if items > max_items:
                raise JsonRefused(f"has more than {max_items} entries")


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        repeated = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise JsonRefused(f"repeats the key {repeated[:80]!r}")
    return found


def refuse_constant(name: str) -> Never:
    raise JsonRefused(f"holds {name}, which is not JSON")


def finite_float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise JsonRefused("holds a number too large to be one")
    return value
