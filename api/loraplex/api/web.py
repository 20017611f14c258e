"""The web app's build: files as they are, and its one page for every path it draws itself."""

from pathlib import Path

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from loraplex.api.errors import respond

API_PATHS = ("/api/", "/v1/")
IMMUTABLE = "public, max-age=31536000, immutable"
"""Vite writes a digest into the name of every file under /assets."""


def web_dir() -> Path | None:
    """The build, in a wheel beside this module, in a checkout web/dist; None when there is none."""
    package = Path(__file__).parent
    for candidate in (package / "web", package.parents[2] / "web" / "dist"):
        if (candidate / "index.html").is_file():
            return candidate
    return None


class WebApp(StaticFiles):
    """Serves a build; a path that is no file, and could be a page, is the app's own to draw."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        try:
            response = await super().get_response(path, scope)
        except HTTPException as error:
            if error.status_code != 404 or not _is_page(scope["path"]):
                raise
            response = await super().get_response("index.html", scope)
        is_asset = scope["path"].startswith("/assets/")
        response.headers["Cache-Control"] = IMMUTABLE if is_asset else "no-cache"
        return response


def _is_page(path: str) -> bool:
    if path.startswith((*API_PATHS, "/assets/")):
        return False
    # An adapter's name may hold a dot; other paths with one ask for a file.
    return path.startswith("/adapters/") or "." not in path.rsplit("/", 1)[-1]


def mount(app: FastAPI) -> None:
    """Serve the web app at / of `app`, after all other routes."""
    directory = web_dir()
    if directory is not None:
        app.mount("/", WebApp(directory=directory, html=True), name="web")
        return

    @app.get("/", include_in_schema=False)
    async def _not_built(request: Request) -> Response:
        return respond("/", 404, "The web app is not built: run `make web`.", "web_not_built")
