"""Speaks to the management API over HTTP, for the command line."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self
from urllib.parse import quote

import httpx

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
PICKLE_FILE = "adapter_model.bin"
POLL_SECONDS = 0.25
TIMEOUT = httpx.Timeout(30.0, write=120.0, read=120.0)

Json = dict[str, Any]


class ApiRefused(Exception):
    """The platform refused the call; the message is its own."""


class ApiUnreachable(Exception):
    """Nothing answered, or nothing that speaks this API."""


class ValidationPending(Exception):
    """The version is neither ready nor rejected yet."""


class FolderUnusable(Exception):
    """The folder is not what PEFT's save_pretrained writes."""


def adapter_files(folder: Path) -> tuple[Path, Path]:
    """The two files of a PEFT adapter's folder; raises FolderUnusable."""
    config, weights = folder / CONFIG_FILE, folder / WEIGHTS_FILE
    if not folder.is_dir():
        raise FolderUnusable(f"{folder} is not a folder.")
    if not weights.is_file() and (folder / PICKLE_FILE).is_file():
        raise FolderUnusable(
            f"{folder} holds {PICKLE_FILE}, a pickle; only {WEIGHTS_FILE} is accepted. In PEFT, "
            "save with model.save_pretrained(folder, safe_serialization=True)."
        )
    missing = [file.name for file in (config, weights) if not file.is_file()]
    if missing:
        raise FolderUnusable(f"{folder} has no {' and no '.join(missing)}.")
    return config, weights


class RegistryClient:
    """One tenant's view of the registry. Every call raises ApiRefused and ApiUnreachable."""

    def __init__(self, api_url: str, api_key: str) -> None:
        self._http = httpx.Client(
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
        self._http.close()

    def adapters(self) -> list[Json]:
        found: list[Json] = self._call("GET", "adapters")["data"]
        return found

    def versions(self, name: str) -> list[Json]:
        found: list[Json] = self._call("GET", f"adapters/{quote(name, safe='')}/versions")["data"]
        return found

    def version(self, name: str, number: int) -> Json:
        return self._call("GET", f"adapters/{quote(name, safe='')}/versions/{number}")

    def push(self, name: str, config: bytes, weights: BinaryIO) -> Json:
        """Upload a version, streamed from an open file."""
        files = {
            "adapter_config": (CONFIG_FILE, config, "application/json"),
            "adapter_model": (WEIGHTS_FILE, weights, "application/octet-stream"),
        }
        return self._call("POST", f"adapters/{quote(name, safe='')}/versions", files=files)

    def wait(self, name: str, number: int, timeout_seconds: float) -> Json:
        """The version once it is ready or rejected; raises ValidationPending."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            version = self.version(name, number)
            if version["status"] in ("ready", "rejected"):
                return version
            if time.monotonic() >= deadline:
                raise ValidationPending(
                    f"Version {number} is still {version['status']} after {timeout_seconds:.0f} s."
                )
            time.sleep(POLL_SECONDS)

    def _call(self, method: str, path: str, **options: Any) -> Json:
        with reachable(self._http.base_url):
            answer = self._http.request(method, path, **options)
        try:
            body = answer.json()
        except ValueError:
            body = None
        if answer.is_error:
            raise ApiRefused(refusal(answer.status_code, body))
        if not isinstance(body, dict):
            raise ApiUnreachable(f"{self._http.base_url} does not speak Loraplex's API.")
        return body


@contextmanager
def reachable(url: httpx.URL) -> Iterator[None]:
    try:
        yield
    except httpx.HTTPError as error:
        raise ApiUnreachable(f"{url} cannot be reached: {error}") from error


def refusal(status: int, body: Any) -> str:
    detail = body.get("detail") if isinstance(body, dict) else None
    return f"{detail or 'The platform refused the call.'} (HTTP {status})"
