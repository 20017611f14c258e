"""The API's description, held to every answer that a test sees: its status and its headers."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpx

from loraplex.api.edge import security_headers
from loraplex.api.gateway import create_app
from loraplex.api.openai.streams import HEADERS as OF_STREAMS
from loraplex.platform.settings import Settings

OF_HTTP = ("connection", "content-length", "content-type", "date", "server", "transfer-encoding")
UNDESCRIBED = frozenset(
    name.lower() for name in (*OF_HTTP, *security_headers(None), "Cache-Control", *OF_STREAMS)
)
"""What any answer may have: the protocol's own, and what browsers and proxies are told."""


@cache
def description() -> dict[str, Any]:
    return create_app(Settings()).openapi()


@cache
def operations() -> list[tuple[str, re.Pattern[str], dict[str, Any]]]:
    """Method, path and operation; paths without parameters come first."""
    found = []
    for path, item in sorted(description()["paths"].items(), key=lambda one: "{" in one[0]):
        parts = re.split(r"\{(\w+)\}", path)
        # A model's name may have slashes; every other parameter is one part of the path.
        pattern = "".join(
            re.escape(part) if place % 2 == 0 else ".+" if part == "model" else "[^/]+"
            for place, part in enumerate(parts)
        )
        found += [(method.upper(), re.compile(pattern), one) for method, one in item.items()]
    return found


def resolved(described: dict[str, Any]) -> dict[str, Any]:
    """A thing of the description, or what it refers to."""
    while "$ref" in described:
        found: Any = description()
        for name in described["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        described = found
    return described


def check_answer(method: str, url: str, status: int, header_names: Iterable[str]) -> None:
    """Fail for a status or a header that the operation's description does not have."""
    path = urlsplit(url).path
    named = (o for its, pattern, o in operations() if its == method and pattern.fullmatch(path))
    operation = next(named, None)
    if operation is None:
        return  # nothing is said of what there is not
    place = f"{method} {path}"
    assert str(status) in operation["responses"], f"{place} answered {status}, undescribed"
    described = resolved(operation["responses"][str(status)])["headers"]
    names = {name.lower() for name in header_names}
    undescribed = names - UNDESCRIBED - {name.lower() for name in described}
    assert not undescribed, f"{place}, {status}: undescribed headers {undescribed}"
    required = {name.lower() for name, one in described.items() if resolved(one).get("required")}
    assert required <= names, f"{place}, {status}: missing headers {required - names}"


def check_response(response: httpx.Response) -> None:
    """`check_answer` as a client's hook."""
    request = response.request
    check_answer(request.method, str(request.url), response.status_code, response.headers)
