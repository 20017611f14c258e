"""Notices that requests wait while nothing runs and nothing loads: nobody would ever wake them."""

import logging
from enum import Enum, auto

log = logging.getLogger(__name__)


class Remedy(Enum):
    NONE = auto()
    EVICT = auto()
    """Empty everything idle, forget what was found blocked, and try again."""
    FAIL_FIRST = auto()
    """That did not help: the request at the head of the line ends."""


class StallWatch:
    """Counts and logs each stall once, however many steps it lasts; every one is a defect."""

    def __init__(self) -> None:
        self.stalls = 0
        self._is_stalled = False

    def see(self, waiting_requests: int, *, can_go_on: bool, free_pages: int) -> Remedy:
        """After each plan; `can_go_on` where something runs, loads or has just ended."""
        if can_go_on or not waiting_requests:
            self._is_stalled = False
            return Remedy.NONE
        if self._is_stalled:
            return Remedy.FAIL_FIRST
        self._is_stalled = True
        self.stalls += 1
        log.error(
            "%d requests wait, nothing runs and nothing loads, with %d pages free",
            waiting_requests,
            free_pages,
        )
        return Remedy.EVICT
