"""Sends an adapter in parts, and goes on where an earlier run, or the platform, was interrupted.

The state is the platform's: an upload that is still open for the same adapter and the same bytes
is this one, and its parts that have come are not sent again.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from hashlib import file_digest
from pathlib import Path
from typing import TypeVar

from loraplex.adapters_registry.client import RegistryClient
from loraplex.platform.management_client import ApiBusy, ApiRefused, ApiUnreachable, Json

PARTS_AT_ONCE = 4
URLS_AT_ONCE = 16
CHUNK_BYTES = 256 * 1024
PATIENCE_SECONDS = 120.0
"""How long one call is tried again while the platform is away, or busy."""
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 5.0
POLL_SECONDS = 0.25

Result = TypeVar("Result")
Progress = Callable[[int], object]
"""Is told how many more bytes have come; fewer than none when they have to be sent again."""


@dataclass(frozen=True)
class LocalFile:
    """A file to send, and what it is announced as."""

    path: Path
    size_bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> "LocalFile":
        """Reads the whole file."""
        with path.open("rb") as file:
            return cls(path, path.stat().st_size, file_digest(file, "sha256").hexdigest())

    @property
    def announced(self) -> Json:
        return {"name": self.path.name, "size_bytes": self.size_bytes, "sha256": self.sha256}


class UploadUnfinished(Exception):
    """The platform has not completed the upload yet."""


def push_files(
    client: RegistryClient,
    adapter: str,
    files: Sequence[LocalFile],
    progress: Progress,
    timeout_seconds: float,
) -> int:
    """Send the files, or what is missing of them, and answer the version that they became.

    Raises ApiRefused (also when the upload failed), ApiUnreachable (once it has begun, only after
    PATIENCE_SECONDS in vain), and UploadUnfinished when completing takes `timeout_seconds`.
    """
    upload = _found_or_opened(client, adapter, files)
    upload_id = upload["id"]
    if upload["status"] == "pending":
        for file in files:
            _send_missing(client, upload, file, progress)
        patiently(partial(client.complete_upload, upload_id))
    else:
        progress(sum(file.size_bytes for file in files))
    deadline = time.monotonic() + timeout_seconds
    while True:
        upload = patiently(partial(client.upload, upload_id))
        if upload["status"] == "completed":
            version: int = upload["version"]
            return version
        if upload["status"] != "completing":
            reason = upload["error"]["message"] if upload["error"] else ""
            raise ApiRefused(f"The upload is {upload['status']}. {reason}".strip())
        if time.monotonic() >= deadline:
            raise UploadUnfinished(
                f"The upload is still {upload['status']} after {timeout_seconds:.0f} s."
            )
        time.sleep(POLL_SECONDS)


def patiently(call: Callable[[], Result]) -> Result:
    """Call until the platform answers; raises ApiUnreachable or ApiBusy when it does not.

    PATIENCE_SECONDS count from the first failure: the failure itself may take as long.
    """
    deadline, pause = None, FIRST_PAUSE_SECONDS
    while True:
        try:
            return call()
        except (ApiUnreachable, ApiBusy):
            now = time.monotonic()
            deadline = deadline or now + PATIENCE_SECONDS
            if now + pause >= deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _found_or_opened(client: RegistryClient, adapter: str, files: Sequence[LocalFile]) -> Json:
    """The upload of these files that is open, the newest of several; else a new one."""
    wanted = [file.announced for file in files]
    for status in ("pending", "completing"):
        for upload in client.uploads(adapter, status):
            told = [
                {key: file[key] for key in ("name", "size_bytes", "sha256")}
                for file in upload["files"]
            ]
            if told == wanted:
                return upload
    return client.create_upload(adapter, wanted)


@dataclass(frozen=True)
class _Part:
    """A piece of a file on its way to one upload."""

    client: RegistryClient
    upload_id: str
    file: LocalFile
    number: int
    start: int
    size_bytes: int
    progress: Progress

    def send(self, url: str) -> None:
        """Send it until it has come, with a new address where the old one has failed."""
        urls = [url]

        def attempt() -> None:
            self._send_once(urls.pop() if urls else self._new_url())

        patiently(attempt)

    def _new_url(self) -> str:
        return self.client.part_urls(self.upload_id, self.file.path.name, [self.number])[
            self.number
        ]

    def _send_once(self, url: str) -> None:
        told_bytes = 0

        def chunks() -> Iterator[bytes]:
            nonlocal told_bytes
            for chunk in _chunks(self.file.path, self.start, self.size_bytes):
                yield chunk
                told_bytes += len(chunk)
                self.progress(len(chunk))

        try:
            self.client.put_part(url, chunks(), self.size_bytes)
        except BaseException:
            self.progress(-told_bytes)
            raise


def _send_missing(
    client: RegistryClient, upload: Json, file: LocalFile, progress: Progress
) -> None:
    told = next(one for one in upload["files"] if one["name"] == file.path.name)
    parts = [
        _Part(
            client=client,
            upload_id=upload["id"],
            file=file,
            number=number,
            start=start,
            size_bytes=min(told["part_bytes"], file.size_bytes - start),
            progress=progress,
        )
        for number, start in enumerate(range(0, file.size_bytes, told["part_bytes"]), start=1)
    ]
    received = set(told["parts_received"])
    progress(sum(part.size_bytes for part in parts if part.number in received))
    missing = [part for part in parts if part.number not in received]
    with ThreadPoolExecutor(PARTS_AT_ONCE) as pool:
        for start in range(0, len(missing), URLS_AT_ONCE):
            batch = missing[start : start + URLS_AT_ONCE]
            numbers = [part.number for part in batch]
            urls = patiently(partial(client.part_urls, upload["id"], file.path.name, numbers))
            sent = [pool.submit(part.send, urls[part.number]) for part in batch]
            try:
                for one in sent:
                    one.result()
            finally:
                for one in sent:
                    one.cancel()


def _chunks(path: Path, start: int, size_bytes: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(start)
        while size_bytes:
            chunk = file.read(min(CHUNK_BYTES, size_bytes))
            if not chunk:
                raise ApiRefused(f"{path} has become shorter while it was sent.")
            size_bytes -= len(chunk)
            yield chunk
