"""PostgreSQL's own programs, run against an embedded server; no password is on a command line."""

import subprocess
from collections.abc import Sequence

from loraplex.platform.backup.errors import BackupIncomplete
from loraplex.platform.embedded.ports import LOOPBACK
from loraplex.platform.embedded.postgres import DATABASE, SUPERUSER, Postgres, binaries_dir
from loraplex.platform.embedded.processes import base_environment


def run(program: str, server: Postgres, arguments: Sequence[str]) -> None:
    """Raises BackupIncomplete with the program's own words."""
    where = [f"--host={LOOPBACK}", f"--port={server.port}", f"--username={SUPERUSER}"]
    where += [f"--dbname={DATABASE}", "--no-password"]
    done = subprocess.run(
        [str(binaries_dir() / program), *where, *arguments],
        env=base_environment() | {"PGPASSWORD": server.password},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        raise BackupIncomplete(f"{program} failed: {done.stderr.strip()[-2000:]}", value=program)
