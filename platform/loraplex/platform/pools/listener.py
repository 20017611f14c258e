"""The internal HTTP listener: workers register, Prometheus reads. Never on the public port."""

import asyncio
import hmac
from collections.abc import Sequence
from http import HTTPStatus

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError

from loraplex.engine.protocol.errors import DomainError, Kind
from loraplex.engine.protocol.workers import WantedAdapters
from loraplex.platform.database.sessions import Database
from loraplex.platform.exposition import CONTENT_TYPE, Exposition
from loraplex.platform.pools.errors import InvalidRegistration, WrongWorkerToken
from loraplex.platform.pools.gone import gone_namespaces
from loraplex.platform.pools.service import LEASE, WorkerRegistry, parse_registration
from loraplex.platform.pools.wanted import wanted_for
from loraplex.platform.pools.worker_token import worker_token
from loraplex.platform.secrets import SecretKeys

STATUS = {
    Kind.INVALID: HTTPStatus.BAD_REQUEST,
    Kind.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    Kind.NOT_FOUND: HTTPStatus.NOT_FOUND,
    Kind.CONFLICT: HTTPStatus.CONFLICT,
}


class RenewalBody(msgspec.Struct, frozen=True):
    """`wanted_revision` names the list of wanted adapters that the worker knows."""

    incarnation: str
    wanted_revision: str | None = None


def create_listener(database: Database, secrets: SecretKeys) -> FastAPI:
    """The application; `database` is of role `system`."""
    app = FastAPI(title="Loraplex internal", docs_url=None, redoc_url=None, openapi_url=None)
    exposition = Exposition()
    authorization = f"Bearer {worker_token(secrets)}".encode()

    def authenticate(request: Request) -> None:
        given = request.headers.get("authorization", "").encode()
        if not hmac.compare_digest(given, authorization):
            raise WrongWorkerToken("The internal listener is for this platform's workers.")

    @app.post("/internal/workers")
    async def register(request: Request) -> Response:
        authenticate(request)
        registration = parse_registration(await request.body())
        async with database.unit_of_work() as session:
            await WorkerRegistry(session).register(registration)
            gone = await gone_namespaces(session, is_renewal=False)
        return lease_granted(gone)

    @app.put("/internal/workers/{worker_id}/lease")
    async def renew(worker_id: str, request: Request) -> Response:
        authenticate(request)
        body = parse_renewal(await request.body())
        async with database.unit_of_work() as session:
            await WorkerRegistry(session).renew(worker_id, body.incarnation)
            gone = await gone_namespaces(session, is_renewal=True)
            wanted = await wanted_for(session, worker_id, body.wanted_revision)
        return lease_granted(gone, wanted)

    @app.delete("/internal/workers/{worker_id}")
    async def deregister(worker_id: str, incarnation: str, request: Request) -> Response:
        authenticate(request)
        async with database.unit_of_work() as session:
            await WorkerRegistry(session).deregister(worker_id, incarnation)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(await asyncio.to_thread(exposition.text), media_type=CONTENT_TYPE)

    @app.get("/healthz")
    async def health() -> Response:
        return Response(status_code=HTTPStatus.NO_CONTENT)

    app.add_exception_handler(DomainError, refuse)
    for error in (SQLAlchemyError, OSError):
        app.add_exception_handler(error, database_is_away)
    return app


def lease_granted(gone: Sequence[str], wanted: WantedAdapters | None = None) -> Response:
    granted: dict[str, object] = {"lease_seconds": LEASE.total_seconds(), "gone": gone}
    if wanted is not None:
        granted["wanted"] = wanted
    return Response(msgspec.json.encode(granted), media_type="application/json")


def parse_renewal(body: bytes) -> RenewalBody:
    """Raises InvalidRegistration."""
    try:
        return msgspec.json.decode(body, type=RenewalBody)
    except msgspec.DecodeError as error:
        raise InvalidRegistration(f"The body cannot be read: {error}") from error


async def refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, DomainError), "this handler is for domain errors only"
    body = {"code": error.code, "message": error.message}
    return JSONResponse(body, STATUS.get(error.kind, HTTPStatus.INTERNAL_SERVER_ERROR))


async def database_is_away(_: Request, error: Exception) -> Response:
    """Workers try again until Postgres is back."""
    body = {"code": "database_unavailable", "message": type(error).__name__}
    return JSONResponse(body, HTTPStatus.SERVICE_UNAVAILABLE)
