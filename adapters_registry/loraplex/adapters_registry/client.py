"""Speaks to the management API over HTTP, for the command line."""

import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import httpx

from loraplex.platform.management_client import (
    TIMEOUT,
    ApiBusy,
    ApiRefused,
    Json,
    ManagementClient,
    reachable,
    segment,
)

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
ARCHIVE_SUFFIXES = (".zip", ".tar.gz")
PICKLE_FILE = "adapter_model.bin"
POLL_SECONDS = 0.25


class ValidationPending(Exception):
    """The version is neither ready nor rejected yet."""


class FolderUnusable(Exception):
    """The folder is not what PEFT's save_pretrained writes."""


def adapter_files(source: Path) -> list[Path]:
    """What to send of a PEFT adapter's folder, or the archive itself; raises FolderUnusable."""
    if source.is_file() and source.name.endswith(ARCHIVE_SUFFIXES):
        return [source]
    config, weights = source / CONFIG_FILE, source / WEIGHTS_FILE
    if not source.is_dir():
        suffixes = " nor ".join(ARCHIVE_SUFFIXES)
        raise FolderUnusable(f"{source} is not a folder, nor a {suffixes} archive.")
    if not weights.is_file() and (source / PICKLE_FILE).is_file():
        raise FolderUnusable(
            f"{source} holds {PICKLE_FILE}, a pickle; only {WEIGHTS_FILE} is accepted. In PEFT, "
            "save with model.save_pretrained(folder, safe_serialization=True)."
        )
    missing = [file.name for file in (config, weights) if not file.is_file()]
    if missing:
        raise FolderUnusable(f"{source} has no {' and no '.join(missing)}.")
    return [config, weights]


class RegistryClient(ManagementClient):
    """One tenant's view of the registry. Every call raises ApiRefused and ApiUnreachable."""

    def __init__(self, api_url: str, api_key: str) -> None:
        super().__init__(api_url, api_key)
        self._store = httpx.Client(timeout=TIMEOUT)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._store.close()

    def adapters(self) -> list[Json]:
        return self.items("adapters")

    def versions(self, name: str) -> list[Json]:
        return self.items(f"adapters/{segment(name)}/versions")

    def version(self, name: str, number: int) -> Json:
        return self.call("GET", f"adapters/{segment(name)}/versions/{number}")

    def create_upload(self, adapter: str, files: list[Json]) -> Json:
        return self.call("POST", "uploads", json={"adapter": adapter, "files": files})

    def uploads(self, adapter: str, status: str) -> list[Json]:
        """The newest uploads of an adapter that have this status."""
        query = {"adapter": adapter, "status": status}
        found: list[Json] = self.call("GET", "uploads", params=query)["data"]
        return found

    def upload(self, upload_id: str) -> Json:
        return self.call("GET", f"uploads/{upload_id}")

    def part_urls(self, upload_id: str, file: str, parts: list[int]) -> dict[int, str]:
        """Where these parts go, by number."""
        wanted = {"file": file, "parts": parts}
        urls = self.call("POST", f"uploads/{upload_id}/part-urls", json=wanted)["urls"]
        return {url["part"]: url["url"] for url in urls}

    def put_part(self, url: str, body: Iterator[bytes], size_bytes: int) -> None:
        """Send a part to this API, or without the key to the store that the address names.

        An address that the store does not take any more is an ApiBusy: another one is needed.
        """
        headers = {"Content-Length": str(size_bytes)}
        if url.startswith("/"):
            self.call("PUT", str(self.http.base_url.join(url)), content=body, headers=headers)
            return
        with reachable(httpx.URL(url)):
            answer = self._store.put(url, content=body, headers=headers)
        if answer.status_code in (403, 404) or answer.status_code >= 500:
            raise ApiBusy(
                f"The object store did not take a part (HTTP {answer.status_code}).",
                answer.status_code,
            )
        if answer.is_error:
            raise ApiRefused(
                f"The object store refused a part (HTTP {answer.status_code}).",
                answer.status_code,
            )

    def complete_upload(self, upload_id: str) -> Json:
        return self.call("POST", f"uploads/{upload_id}/complete", json={})

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
