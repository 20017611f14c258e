"""Whether this gateway lives, whether it can serve, and its numbers."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request, Response
from fastapi.security import HTTPAuthorizationCredentials
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from loraplex.adapters_registry.errors import BlobMissing, StoreUnavailable
from loraplex.api.authentication import bearer, cookie, operator, signed_in
from loraplex.api.documentation import PROBLEM
from loraplex.api.schemas import WireModel
from loraplex.api.services import Services, ServicesDep
from loraplex.platform.database.migrate import current_revision
from loraplex.platform.exposition import CONTENT_TYPE

router = APIRouter(tags=["health"], responses=PROBLEM)

CHECK_SECONDS = 3.0
KEPT_SECONDS = 0.5
"""Anybody may ask, so many questions at once cost one round of checks."""


class Health(WireModel):
    status: Literal["ok"] = "ok"


class Readiness(WireModel):
    """Which parts are ready; a part that is not says why."""

    ready: bool
    parts: dict[str, str]
    switched: list[str] = []
    """Kill switches that are on: what is off for everybody although all parts are ready."""


OK = "ok"


class ReadinessCheck:
    """Asks every part this gateway needs; answers the same for a moment."""

    def __init__(self, expected_revision: str) -> None:
        self._expected_revision = expected_revision
        self._lock = asyncio.Lock()
        self._answer: Readiness | None = None
        self._asked_at = 0.0

    async def ask(self, services: Services) -> Readiness:
        async with self._lock:
            if self._answer is None or monotonic() - self._asked_at > KEPT_SECONDS:
                self._answer = await self._ask(services)
                self._asked_at = monotonic()
        if services.draining.has_begun:
            parts = {**self._answer.parts, "gateway": "shutting down"}
            return Readiness(ready=False, parts=parts, switched=self._answer.switched)
        return self._answer

    async def _ask(self, services: Services) -> Readiness:
        checks: dict[str, Callable[[Services], Awaitable[str]]] = {
            "database": self._database,
            "object_store": _object_store,
            "workers": _workers,
            "start": _start,
        }
        results = await asyncio.gather(*(_in_time(check(services)) for check in checks.values()))
        parts = {"gateway": OK, **dict(zip(checks, results, strict=True))}
        is_ready = all(part == OK for part in parts.values())
        return Readiness(ready=is_ready, parts=parts, switched=sorted(services.switches.on))

    async def _database(self, services: Services) -> str:
        try:
            revision = await current_revision(services.database)
        except (DBAPIError, PoolTimeout, OSError):
            return "does not answer"
        if revision != self._expected_revision:
            return f"its schema is at {revision}, this gateway needs {self._expected_revision}"
        return OK


async def _object_store(services: Services) -> str:
    try:
        await asyncio.to_thread(services.objects.ping)
    except StoreUnavailable:
        return "does not answer"
    except BlobMissing:
        return "has no bucket"
    return OK


async def _workers(services: Services) -> str:
    base = services.table.base_name
    if services.fleet.limits(base) is None:
        return f"no live worker takes requests for {base}"
    return OK


async def _start(services: Services) -> str:
    file = services.settings.ready_file
    if file is not None and not await asyncio.to_thread(file.exists):
        return "the platform is still being set up"
    return OK


async def _in_time(check: Awaitable[str]) -> str:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check
    except TimeoutError:
        return f"no answer within {CHECK_SECONDS} s"


@router.get("/healthz", operation_id="getHealth")
async def healthz() -> Health:
    """This process lives and its event loop turns."""
    return Health()


@router.get(
    "/readyz",
    operation_id="getReadiness",
    responses={503: {"model": Readiness, "description": "A part is not ready."}},
)
async def readyz(request: Request, response: Response, services: ServicesDep) -> Readiness:
    """This gateway can serve requests: schema, object store and a worker are there."""
    check: ReadinessCheck = request.app.state.readiness
    readiness = await check.ask(services)
    response.status_code = 200 if readiness.ready else 503
    return readiness


@router.get("/metrics", operation_id="getMetrics", response_class=Response)
async def metrics(
    request: Request,
    services: ServicesDep,
    key: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
    token: Annotated[str | None, Depends(cookie)],
) -> Response:
    """Prometheus' text format. On a public address only an operator may read it."""
    if not services.settings.is_loopback:
        await operator(request, await signed_in(request, services, key, token))
    text = await asyncio.to_thread(services.metrics.text, services.fleet)
    return Response(text, media_type=CONTENT_TYPE)
