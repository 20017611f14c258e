"""Ports are remembered, and given up when somebody else has them."""

import socket
import stat
from pathlib import Path

from loraplex.platform.embedded.ports import PortBook, is_free


def test_a_port_stays_the_same_and_no_two_names_share_one(tmp_path: Path) -> None:
    file = tmp_path / "run" / "ports.json"
    first = {name: PortBook(file).port(name) for name in ("a", "b", "c")}
    assert len(set(first.values())) == 3
    assert {name: PortBook(file).port(name) for name in first} == first
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_remembered_port_that_is_busy_is_replaced(tmp_path: Path) -> None:
    book = PortBook(tmp_path / "ports.json")
    port = book.port("a")
    with socket.create_server(("127.0.0.1", port)):
        assert not is_free(port)
        other = book.port("a")
    assert other != port
    assert book.port("a") == other


def test_a_damaged_file_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / "ports.json").write_text("{")
    assert is_free(PortBook(tmp_path / "ports.json").port("a"))
