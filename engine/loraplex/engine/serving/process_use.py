"""What this worker process takes of its machine, read as Linux tells it."""

import os
from time import time

from loraplex.engine.protocol.workers import ProcessUse

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
STARTED_AT = time()


def process_use() -> ProcessUse:
    """As of now; from any thread."""
    with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123  twice a second, for ever
        resident_pages = int(statm.read().split()[1])
    times = os.times()
    return ProcessUse(
        cpu_seconds=times.user + times.system,
        resident_bytes=resident_pages * PAGE_BYTES,
        open_files=len(os.listdir("/proc/self/fd")),  # noqa: PTH208
        started_at=STARTED_AT,
    )
