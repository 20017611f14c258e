"""Where the processes of one machine count together, so that any gateway can tell for all.

prometheus_client decides at its import whether it counts there or privately; a command calls
`share_metrics` before it imports anything that counts.
"""

import os

from loraplex.platform.settings import Settings

MULTIPROCESS_DIR = "PROMETHEUS_MULTIPROC_DIR"


def share_metrics(settings: Settings) -> None:
    """Have this process and its children count where the gateways of this machine read."""
    folder = settings.run_dir / "metrics"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.environ.setdefault(MULTIPROCESS_DIR, str(folder))
