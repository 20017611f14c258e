"""Folders on this machine's disk for bytes that are on their way in."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from loraplex.platform.settings import Settings


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
    return tempfile.TemporaryDirectory(dir=parent)
