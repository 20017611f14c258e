from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI

from loraplex.api.edge import MAX_JSON_BYTES, Edge, security_headers
from loraplex.api.metrics import Metrics
from loraplex.engine.protocol.tracing import NO_TRACING
from tests.api.conftest import Tenant
from tests.api.running import RunningGateway


@pytest.mark.parametrize("path", ["/", "/healthz", "/v1/models", "/nothing", "/api/v1/adapters"])
def test_every_answer_has_an_id_and_security_headers(path: str, gateway: RunningGateway) -> None:
    with gateway.client() as client:
        answer = client.get(path)
    assert answer.headers["x-request-id"]
    for name, value in security_headers(None).items():
        assert answer.headers[name] == value
    assert "script-src" not in answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]


def test_a_page_may_send_parts_to_the_store_where_clients_reach_it() -> None:
    policy = security_headers("https://objects.example.com")["Content-Security-Policy"]
    assert "connect-src 'self' https://objects.example.com;" in policy


def test_a_body_beyond_the_limit_is_413_declared_or_not(
    gateway: RunningGateway, tenant: Tenant
) -> None:
    def undeclared() -> Iterator[bytes]:
        for _ in range(MAX_JSON_BYTES // 100_000 + 2):
            yield b" " * 100_000

    with gateway.client(tenant.key) as client:
        declared = client.post("/v1/completions", content=b" " * (MAX_JSON_BYTES + 1))
        streamed = client.post("/v1/completions", content=undeclared())
    for answer in (declared, streamed):
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "request_too_large"


async def test_an_error_nobody_foresaw_is_500_in_its_paths_shape_and_tells_nothing() -> None:
    app = FastAPI()

    @app.get("/v1/broken")
    async def broken() -> None:
        raise ZeroDivisionError("lpx_secret")

    limits = {"max_upload_bytes": 1, "max_part_bytes": 1}
    app.add_middleware(Edge, metrics=Metrics(), tracing=NO_TRACING, **limits, store_origin=None)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        answer = await client.get("/v1/broken")
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "server_error"
    assert "secret" not in answer.text
    assert answer.headers["x-request-id"]
