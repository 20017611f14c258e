"""Tells a person what is being started, one line an event, the same on every terminal."""

import sys
import time
from collections.abc import Callable


class Progress:
    """Prints one line an event with the seconds since the start, the same on every terminal."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()

    def line(self, text: str) -> None:
        elapsed_seconds = self._clock() - self._started
        sys.stdout.write(f"[{elapsed_seconds:6.1f} s] {text}\n")
        sys.stdout.flush()
