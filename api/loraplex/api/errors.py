"""The only place where an error becomes HTTP: one status a kind, OpenAI's shape under /v1."""

from collections.abc import Mapping
from http import HTTPStatus

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from loraplex.api.idempotency import Replay, replay
from loraplex.api.limit_headers import limit_headers
from loraplex.api.openai.answer_schemas import OpenAIError, OpenAIErrorBody
from loraplex.api.refusals import DatabaseUnavailable, RouteNotFound
from loraplex.api.schemas import Problem
from loraplex.api.served import version_header
from loraplex.api.validation import refusal
from loraplex.engine.protocol.errors import DomainError, Kind
from loraplex.platform.admission.errors import LimitRefusal
from loraplex.platform.metrics import REFUSALS

log = structlog.get_logger(__name__)

STATUS = {
    Kind.INVALID: 400,
    Kind.UNAUTHENTICATED: 401,
    Kind.FORBIDDEN: 403,
    Kind.NOT_FOUND: 404,
    Kind.CONFLICT: 409,
    Kind.STALE: 412,
    Kind.UNCONDITIONAL: 428,
    Kind.TOO_LARGE: 413,
    Kind.UNPROCESSABLE: 422,
    Kind.LIMITED: 429,
    Kind.EXHAUSTED: 429,
    Kind.OVERLOADED: 503,
}

OPENAI_TYPE = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
}
INTERNAL = "Something went wrong on our side. Quote the x-request-id when you ask about it."


def install(app: FastAPI) -> None:
    """Make every error of `app` that has a name answer in the shape its path promises.

    What nobody foresaw is the outermost layer's to answer (`edge`).
    """

    @app.exception_handler(DomainError)
    async def _domain(request: Request, error: DomainError) -> Response:
        answer = render(request.url.path, error)
        answer.headers.update(version_header(request))
        return answer

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> Response:
        return render(request.url.path, refusal(error.errors(), skip=1))

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        if error.status_code == HTTPStatus.NOT_FOUND:
            return render(request.url.path, RouteNotFound("There is nothing at this path."))
        phrase = HTTPStatus(error.status_code).phrase
        code = phrase.lower().replace(" ", "_")
        return respond(request.url.path, error.status_code, f"{phrase}.", code, error.headers)

    app.add_exception_handler(Replay, replay)

    @app.exception_handler(OperationalError)
    @app.exception_handler(InterfaceError)
    @app.exception_handler(PoolTimeout)
    async def _database(request: Request, error: Exception) -> Response:
        log.warning("database_unavailable", path=request.url.path, error=type(error).__name__)
        return render(request.url.path, DatabaseUnavailable())


def render(path: str, error: DomainError) -> Response:
    """`error` as the answer to a request for `path`."""
    status = STATUS[error.kind]
    count(path, error.code)
    headers = headers_of(error)
    if under_openai(path):
        return JSONResponse(openai_body(error), status, headers)
    problem = Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=error.message,
        code=error.code,
        field=error.field,
        rule=error.rule,
        value=error.value,
    )
    return JSONResponse(
        problem.model_dump(), status, headers, media_type="application/problem+json"
    )


def respond(
    path: str, status: int, message: str, code: str, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer for what is no DomainError."""
    count(path, code)
    if under_openai(path):
        kind = OPENAI_TYPE.get(status, "invalid_request_error")
        body = OpenAIErrorBody(message=message, type=kind, param=None, code=code)
        return JSONResponse(OpenAIError(error=body).model_dump(), status, headers)
    problem = Problem(title=HTTPStatus(status).phrase, status=status, detail=message, code=code)
    return JSONResponse(
        problem.model_dump(), status, headers, media_type="application/problem+json"
    )


def count(path: str, code: str) -> None:
    """Every refusal is counted by its code, which is one of ours."""
    REFUSALS.labels("openai" if under_openai(path) else "management", code).inc()


def openai_body(error: DomainError) -> dict[str, object]:
    """The `{"error": …}` of an answer or of an event after the first byte."""
    kind = OPENAI_TYPE.get(STATUS[error.kind], "invalid_request_error")
    body = OpenAIErrorBody(message=error.message, type=kind, param=error.field, code=error.code)
    return OpenAIError(error=body).model_dump()


def headers_of(error: DomainError) -> dict[str, str]:
    headers = {}
    if error.kind is Kind.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = "Bearer"
    is_under_way = error.kind is Kind.CONFLICT and error.retry_after_seconds is not None
    if error.kind in (Kind.LIMITED, Kind.OVERLOADED) or is_under_way:
        headers["Retry-After"] = str(max(1, error.retry_after_seconds or 1))
    if error.kind is Kind.EXHAUSTED:
        headers["x-should-retry"] = "false"
    if isinstance(error, LimitRefusal):
        headers |= limit_headers(error.windows)
    return headers


def under_openai(path: str) -> bool:
    return path == "/v1" or path.startswith("/v1/")
