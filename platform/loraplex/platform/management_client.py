"""Speaks to the management API over HTTP, for commands."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

TIMEOUT = httpx.Timeout(30.0, write=120.0, read=120.0)

Json = dict[str, Any]


class ApiRefused(Exception):
    """The platform refused the call; the message is its own, `status` HTTP's where that was it."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ApiBusy(ApiRefused):
    """The platform could not serve the call now and may later."""


class ApiUnreachable(Exception):
    """Nothing answered, or nothing that speaks this API."""


class ManagementClient:
    """What one key may do. Every call raises ApiRefused and ApiUnreachable."""

    def __init__(self, api_url: str, api_key: str) -> None:
        self.http = httpx.Client(
            base_url=f"{api_url.rstrip('/')}/api/v1/",
            headers={"Authorization": f"Bearer {api_key}"},
            timeout=TIMEOUT,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.http.close()

    def call(self, method: str, path: str, **options: Any) -> Json:
        """The answer's object; empty where there is none to have (204)."""
        with reachable(self.http.base_url):
            answer = self.http.request(method, path, **options)
        if answer.status_code == HTTPStatus.NO_CONTENT:
            return {}
        try:
            body = answer.json()
        except ValueError:
            body = None
        if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise ApiBusy(refusal(answer.status_code, body), answer.status_code)
        if answer.is_error:
            raise ApiRefused(refusal(answer.status_code, body), answer.status_code)
        if not isinstance(body, dict):
            raise ApiUnreachable(f"{self.http.base_url} does not speak Loraplex's API.")
        return body

    def items(self, path: str, limit: int | None = None) -> list[Json]:
        """A list's items, page after page; the first `limit` where one is given."""
        found: list[Json] = []
        query: dict[str, str] = {}
        while True:
            page = self.call("GET", path, params=query)
            found += page["data"]
            cursor = page.get("next_cursor")
            if cursor is None or (limit is not None and len(found) >= limit):
                return found[:limit]
            query = {"cursor": cursor}


def segment(text: str) -> str:
    """A name as one part of a path."""
    return quote(text, safe="")


@contextmanager
def reachable(url: httpx.URL) -> Iterator[None]:
    try:
        yield
    except httpx.HTTPError as error:
        raise ApiUnreachable(f"{url} cannot be reached: {error}") from error


def refusal(status: int, body: Any) -> str:
    detail = body.get("detail") if isinstance(body, dict) else None
    return f"{detail or 'The platform refused the call.'} (HTTP {status})"
