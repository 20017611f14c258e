"""While the platform is read-only, nothing is changed through the management API."""

from starlette.types import ASGIApp, Receive, Scope, Send

from loraplex.api.errors import render
from loraplex.api.services import Services
from loraplex.platform.switches.errors import ReadOnly

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
MANAGEMENT = "/api/v1/"
GOES_ON = ("/api/v1/session", "/api/v1/admin/")
"""Signing in and out, and operators, who are the ones to put things right."""
CHANGES = frozenset({"/api/v1/session/invitation", "/api/v1/session/password"})
"""What changes something all the same: who is a member, and by which password."""


class ReadOnlyGuard:
    """A layer around the routes, so that no route can forget it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and changes_something(scope["method"], scope["path"]):
            services: Services = scope["app"].state.services
            try:
                services.switches.refuse_if_read_only()
            except ReadOnly as refusal:
                await render(scope["path"], refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def changes_something(method: str, path: str) -> bool:
    """Whether a request is one that a read-only platform refuses."""
    is_management = path.startswith(MANAGEMENT) and not path.startswith(GOES_ON)
    return (is_management or path in CHANGES) and method not in SAFE_METHODS
