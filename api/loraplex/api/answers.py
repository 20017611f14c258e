"""Which statuses each operation answers with, and which headers: what /openapi.json says of both.

What a route takes tells most of it: one with a path's parameter answers 404, one with a body 413.
What only its service knows is listed here, and the API's tests hold every answer to it.
"""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

from loraplex.api.conditions import IF_MATCH
from loraplex.api.idempotency import REPLAYED
from loraplex.api.served import VERSION_HEADER
from loraplex.platform.idempotency.errors import HEADER as IDEMPOTENCY_KEY

Operation = dict[str, Any]
Headers = dict[str, dict[str, str]]

CALLS: Final = frozenset({"createChatCompletion", "createCompletion"})
KINDS: Final = ("requests", "tokens", "prompt-tokens", "output-tokens")
"""Of limits, as headers name them."""


def _header(description: str, *, is_always: bool = False, pattern: str | None = None) -> Any:
    schema = {"type": "string"} if pattern is None else {"type": "string", "pattern": pattern}
    told: dict[str, Any] = {"description": description, "schema": schema}
    return {**told, "required": True} if is_always else told


SECONDS: Final = r"^[1-9][0-9]*$"
HEADERS: Final[Mapping[str, Any]] = {
    "x-request-id": _header("Names this request in our logs and in the ledger.", is_always=True),
    "Retry-After": _header("After how many seconds to ask again.", pattern=SECONDS),
    "x-should-retry": _header("`false`: no waiting makes it pass.", pattern="^false$"),
    "WWW-Authenticate": _header("How to sign in.", pattern="^Bearer$"),
    "Location": _header("Where the thing is that was made."),
    "ETag": _header("The state that a change may be for.", pattern='^"[1-9][0-9]*"$'),
    "Content-Disposition": _header("The file's name."),
    "Set-Cookie": _header("A browser's session, or its end."),
    VERSION_HEADER: _header("The adapter's version, or the base, that the name meant."),
    REPLAYED: _header("This is the answer that was given before.", pattern="^true$"),
    **{
        f"x-ratelimit-{what}-{kind}": _header(f"{told} `{kind}`.", pattern=pattern)
        for kind in KINDS
        for what, told, pattern in (
            ("limit", "The tightest limit a minute on", "^[0-9]+$"),
            ("remaining", "What is left of it, of", "^[0-9]+$"),
            ("reset", "When all of it is there again, as `1m1s`, of", "^([0-9]+m)?[0-9]+s$"),
        )
    },
}
RATES: Final = tuple(name for name in HEADERS if name.startswith("x-ratelimit-"))

TOLD_WITH: Final[Mapping[int, tuple[str, ...]]] = {
    401: ("WWW-Authenticate",),
    409: ("Retry-After", REPLAYED),
    412: (REPLAYED,),
    429: ("Retry-After", "x-should-retry"),
    503: ("Retry-After",),
}
"""Headers of refusals, by status."""

SIGNING_IN: Final = frozenset({"signIn", "beginOidc", "lookAtInvitation"})
"""Who asks these has no credential yet."""

ALSO: Final[Mapping[int, frozenset[str]]] = {
    401: frozenset({"signIn"}),
    403: SIGNING_IN,
    404: CALLS
    | {"chooseTenant", "lookAtInvitation", "acceptInvitation", "beginOidc"}
    | {"createPrice", "getAdminUsage"},
    409: frozenset(
        {
            *("deleteAdapter", "deleteVersion", "putPin", "changeRollout", "putPart"),
            *("changeMember", "removeMember", "changeKey"),
            *("createTenant", "changeTenant", "suspendTenant", "resumeTenant"),
            *("exportTenant", "downloadExport", "createTenantKey", "createPrice"),
            "declarePublicPrefix",
            *("inviteTenantsMember", "changeTenantsMember", "removeTenantsMember"),
            *("changePerson", "changeOperatorKey", "rotateOperatorKey"),
        }
    ),
    429: frozenset({"signIn"}),
}
"""Statuses that only a service knows, by operation."""

SUCCESS_HEADERS: Final[Mapping[str, frozenset[str]]] = {
    "Location": frozenset(
        {
            *("setAlias", "uploadVersion", "createUpload", "completeUpload", "startRollout"),
            *("createWebhook", "testWebhook", "retryDelivery", "startImport", "finishOidc"),
            *("createKey", "rotateKey", "createTenantKey"),
            *("createOperatorKey", "rotateOperatorKey"),
        }
    ),
    "ETag": frozenset({"getAlias", "setAlias", "rollBackAlias"}),
    "Content-Disposition": frozenset({"exportUsage", "exportSettledRequests", "downloadExport"}),
    "Set-Cookie": frozenset(
        {"signIn", "signOut", "changePassword", "acceptInvitation", "beginOidc", "finishOidc"}
    ),
}
"""Headers of what an operation answers when all is well, by name."""


def describe_answers(description: dict[str, Any]) -> None:
    """Give every operation its refusals, and every answer its headers."""
    components = description["components"]
    components["headers"] = dict(HEADERS)
    responses = components.setdefault("responses", {})
    for path, operations in description["paths"].items():
        for operation in operations.values():
            answers = operation["responses"]
            refusal = answers.pop("default", None)
            for told in answers.values():
                told.setdefault("headers", {}).update(_success_headers(operation))
            if refusal is None:
                continue
            for status in statuses_of(path, operation):
                if operation["operationId"] in CALLS:
                    answers[str(status)] = _refusal(refusal, status, _call_headers(status))
                    continue
                name = f"{'OpenAI' if path.startswith('/v1') else 'Problem'}{status}"
                responses[name] = _refusal(refusal, status, TOLD_WITH.get(status, ()))
                # A route may have a refusal of its own, as /readyz.
                answers.setdefault(str(status), {"$ref": f"#/components/responses/{name}"})


def statuses_of(path: str, operation: Operation) -> list[int]:
    """The refusals of an operation, in order."""
    # Any address may hold a NUL; a gateway may be ending; and we may have made a mistake.
    found = {400, 500, 503}
    if "security" in operation:
        found |= {401, 403, 429}
    if "requestBody" in operation:
        found.add(413)
    if "{" in path:
        found.add(404)
    parameters = {one["name"] for one in operation.get("parameters", ())}
    if IDEMPOTENCY_KEY in parameters:
        found |= {409, 422}
    if IF_MATCH in parameters:
        found |= {409, 412, 428}
    found |= {status for status, names in ALSO.items() if operation["operationId"] in names}
    return sorted(found)


def _success_headers(operation: Operation) -> Headers:
    names = ["x-request-id"]
    names += [n for n, known in SUCCESS_HEADERS.items() if operation["operationId"] in known]
    if operation["operationId"] in CALLS:
        names += [VERSION_HEADER, *RATES]
    if any(one["name"] == IDEMPOTENCY_KEY for one in operation.get("parameters", ())):
        names.append(REPLAYED)
    return _references(names)


def _call_headers(status: int) -> Iterator[str]:
    yield from TOLD_WITH.get(status, ())
    yield VERSION_HEADER
    if status in (400, 429):
        yield from RATES


def _refusal(refusal: Mapping[str, Any], status: int, headers: Any) -> dict[str, Any]:
    return {
        "description": HTTPStatus(status).phrase,
        "headers": _references(["x-request-id", *headers]),
        "content": refusal["content"],
    }


def _references(names: list[str]) -> Headers:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
