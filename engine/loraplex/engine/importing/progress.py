"""How an import tells what it is doing."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with a step in words, the bytes done and the bytes in all (0 while unknown)."""


def no_progress(step: str, done_bytes: int, total_bytes: int) -> None:
    """For callers that show nothing."""
