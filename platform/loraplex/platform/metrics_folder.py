"""Where the processes of one machine count together, so that any of them can tell for all.

prometheus_client decides at its import whether it counts there or privately; a command calls
`share_metrics` before it imports anything that counts.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from loraplex.platform.settings import Settings

MULTIPROCESS_DIR = "PROMETHEUS_MULTIPROC_DIR"
MEMBER = "process"


def share_metrics(settings: Settings, kind: str) -> None:
    """Have this process and its children count where the others of this machine read.

    `kind` is what this process is called in metrics: `gateway`, `controller`, `jobs`.
    """
    shared = settings.run_dir / "metrics"
    shared.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.environ.setdefault(MULTIPROCESS_DIR, str(shared))
    join(kind)


def join(kind: str) -> None:
    """Tell that this process counts there: its own use of the machine is then told, too."""
    if MULTIPROCESS_DIR in os.environ:
        (folder() / f"{MEMBER}_{kind}_{os.getpid()}").touch()


def members() -> Iterator[tuple[str, int, float]]:
    """Kind, process id and when it joined (Unix seconds), of all that were not forgotten."""
    for file in sorted(folder().glob(f"{MEMBER}_*")):
        kind, _, process_id = file.name.removeprefix(f"{MEMBER}_").rpartition("_")
        try:
            yield kind, int(process_id), file.stat().st_mtime
        except FileNotFoundError:  # another process forgets it at this moment
            continue


def forget_dead() -> None:
    """Drop what processes that are gone, killed ones too, told of their present."""
    for file in folder().glob("gauge_live*.db"):
        _drop_if_dead(file, int(file.stem.rpartition("_")[2]))
    for file in folder().glob(f"{MEMBER}_*"):
        _drop_if_dead(file, int(file.name.rpartition("_")[2]))


def leave() -> None:
    """Drop what this process told of its present: it ends."""
    if MULTIPROCESS_DIR in os.environ:
        for pattern in ("gauge_live*_{}.db", f"{MEMBER}_*_{{}}"):
            for file in folder().glob(pattern.format(os.getpid())):
                file.unlink(missing_ok=True)


def _drop_if_dead(file: Path, process_id: int) -> None:
    if not Path(f"/proc/{process_id}").exists():
        file.unlink(missing_ok=True)


def folder() -> Path:
    """Where they count; only where MULTIPROCESS_DIR is set."""
    return Path(os.environ[MULTIPROCESS_DIR])
