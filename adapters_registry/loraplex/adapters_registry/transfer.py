"""A file on its way to this machine's disk, told to those who read it while it comes."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from loraplex.engine.protocol.errors import TransferBroke

FOLLOW_SECONDS: Final = 2.0
"""Who reads along holds memory for the file: of a store that takes longer it is read afterwards."""


class Attempt:
    """One try at fetching the file, by the thread that makes it."""

    def __init__(self, handle: int, changed: threading.Condition) -> None:
        self._handle = handle
        self._changed = changed
        self.arrived_bytes = 0
        self.is_over = False
        self.has_failed = False

    def advance(self, end: int) -> None:
        """The bytes before `end` lie in the file."""
        with self._changed:
            self.arrived_bytes = end
            self._changed.notify_all()

    def opened(self) -> int:
        """Another handle of the file, which outlives the attempt; under the lock."""
        return os.dup(self._handle)


class FollowedFile:
    """A reader's view of one attempt; an AdapterBytes."""

    def __init__(self, handle: int, attempt: Attempt, changed: threading.Condition) -> None:
        self.handle = handle
        self._attempt = attempt
        self._changed = changed
        self._deadline = time.monotonic() + FOLLOW_SECONDS

    def wait_for(self, end: int) -> None:
        """Block until the bytes before `end` have come, or all of the file.

        Raises TransferBroke where the attempt was given up, or takes too long.
        """
        attempt = self._attempt
        with self._changed:
            self._changed.wait_for(
                lambda: attempt.arrived_bytes >= end or attempt.is_over,
                self._deadline - time.monotonic(),
            )
            if attempt.has_failed or not (attempt.arrived_bytes >= end or attempt.is_over):
                raise TransferBroke("The adapter's transfer broke off.")


class Transfer:
    """The attempts at one file, made by one thread and followed by any."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._attempt: Attempt | None = None
        self._is_over = False

    @contextmanager
    def attempt(self, handle: int) -> Iterator[Attempt]:
        """Fetch into an open, empty file; it has failed where anything is raised."""
        attempt = Attempt(handle, self._changed)
        with self._changed:
            self._attempt = attempt
            self._changed.notify_all()
        try:
            yield attempt
        except BaseException:
            attempt.has_failed = True
            raise
        finally:
            with self._changed:
                self._attempt = None
                attempt.is_over = True
                self._changed.notify_all()

    def end(self) -> None:
        """There will be no other attempt."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    @contextmanager
    def follow(self) -> Iterator[FollowedFile | None]:
        """The file of the attempt under way or of the next one; None where there is none."""
        with self._changed:
            self._changed.wait_for(lambda: self._attempt is not None or self._is_over)
            attempt = self._attempt
            handle = -1 if attempt is None else attempt.opened()
        if attempt is None:
            yield None
            return
        try:
            yield FollowedFile(handle, attempt, self._changed)
        finally:
            os.close(handle)
