"""Chooses TCP ports on the loopback address and remembers them, so that addresses stay the same."""

import json
import socket
from pathlib import Path

from loraplex.platform.embedded.private_files import write_private

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """A port nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port


def is_free(port: int) -> bool:
    """Whether a server may bind the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen()
        except OSError:
            return False
    return True


class PortBook:
    """Ports by service name in one file; a remembered port that is busy is replaced."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def port(self, name: str) -> int:
        ports = self._read()
        remembered = ports.get(name)
        if remembered is not None and is_free(remembered):
            return remembered
        taken = set(ports.values())
        chosen = free_port()
        while chosen in taken:
            chosen = free_port()
        write_private(self._file, json.dumps(ports | {name: chosen}))
        return chosen

    def _read(self) -> dict[str, int]:
        try:
            ports: dict[str, int] = json.loads(self._file.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return ports
