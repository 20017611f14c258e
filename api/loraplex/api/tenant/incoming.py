"""Bytes on their way in, on this machine's disk: never whole in memory."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.requests import Request

from loraplex.adapters_registry.scratch import remove_left_over
from loraplex.adapters_registry.uploads.errors import WrongPartSize
from loraplex.platform.settings import Settings

LEFT_OVER_SECONDS = 24 * 3600
"""Longer than any form may take to come; only a gateway that was killed leaves a folder so old."""
WRITE_BYTES = 1024 * 1024
"""Smaller pieces wait in memory until there are so many bytes."""


@asynccontextmanager
async def temporary_folder(settings: Settings) -> AsyncIterator[Path]:
    """A private folder under the data directory, removed at the end with all that is in it."""
    made = await asyncio.to_thread(_make, settings.data_dir / "uploads")
    try:
        yield Path(made.name)
    finally:
        await asyncio.to_thread(made.cleanup)


def _make(parent: Path) -> "tempfile.TemporaryDirectory[str]":
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    remove_left_over(parent, LEFT_OVER_SECONDS)
    return tempfile.TemporaryDirectory(dir=parent)


async def receive_body(request: Request, path: Path, part: int, size_bytes: int) -> None:
    """Write the request's body, which has `size_bytes`, to a new file.

    Raises WrongPartSize as soon as it is known, WRITE_BYTES in memory at most.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) != size_bytes:
        raise WrongPartSize(part, int(declared), size_bytes)
    received_bytes, buffer = 0, bytearray()
    file = await asyncio.to_thread(path.open, "xb")
    try:
        async for data in request.stream():
            received_bytes += len(data)
            if received_bytes > size_bytes:
                raise WrongPartSize(part, received_bytes, size_bytes)
            buffer += data
            if len(buffer) >= WRITE_BYTES:
                await asyncio.to_thread(file.write, buffer)
                buffer = bytearray()
        await asyncio.to_thread(file.write, buffer)
    finally:
        await asyncio.to_thread(file.close)
    if received_bytes != size_bytes:
        raise WrongPartSize(part, received_bytes, size_bytes)
