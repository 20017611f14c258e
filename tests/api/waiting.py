"""Waits for what will be so soon, by asking; fails by name when it is not."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(what: str, probe: Callable[[], T], seconds: float = 10) -> T:
    """The first truthy answer of `probe`."""
    deadline = time.monotonic() + seconds
    while not (answer := probe()):
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for {what}"
        time.sleep(0.01)
    return answer
