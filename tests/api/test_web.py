from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from loraplex.api import web

PAGE = "<!doctype html><title>Loraplex</title>"


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> httpx.AsyncClient:
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "app-1a2b.js").write_text("export {}")
    monkeypatch.setattr(web, "web_dir", lambda: tmp_path)
    app = FastAPI()
    web.mount(app)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test")


@pytest.mark.parametrize(
    "path", ["/", "/login", "/adapters", "/adapters/my.adapter", "/chat", "/admin/workers"]
)
async def test_every_page_is_the_apps_one_page(path: str, client: httpx.AsyncClient) -> None:
    answer = await client.get(path)
    assert (answer.status_code, answer.text) == (200, PAGE)
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["content-type"].startswith("text/html")


async def test_assets_are_kept_for_good(client: httpx.AsyncClient) -> None:
    answer = await client.get("/assets/app-1a2b.js")
    assert answer.status_code == 200
    assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize(
    "path", ["/assets/gone.js", "/favicon.ico", "/api/v1/nothing", "/v1/nothing", "/../secret.txt"]
)
async def test_what_is_no_page_is_404(path: str, client: httpx.AsyncClient) -> None:
    assert (await client.get(path)).status_code == 404


async def test_a_checkout_without_a_build_says_how_to_make_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(web, "web_dir", lambda: None)
    app = FastAPI()
    web.mount(app)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        answer = await client.get("/")
    assert answer.status_code == 404
    assert "make web" in answer.json()["detail"]
