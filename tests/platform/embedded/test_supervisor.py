"""The supervisor against real processes: deaths, stops, second starts, crashes of its own."""

import os
import signal
import socket
import stat
import threading
from functools import partial
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.platform.embedded.conftest import StartToy, Toy, wait_for

NOBODY = 65534


def become_nobody() -> tuple[str, ...]:
    """What to put before a command to run it as a user with no rights.

    It may read everywhere, so that it finds a Python inside root's private home folder.
    """
    ids = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    reading = ("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search")
    return ("setpriv", *ids, *reading, "--")


def write_row(toy: Toy) -> None:
    with psycopg.connect(toy.services["database_migrator_url"]) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")


def read_row(toy: Toy) -> object:
    try:
        with psycopg.connect(toy.services["database_migrator_url"]) as connection:
            return connection.execute("SELECT answer FROM kept").fetchone()
    except psycopg.OperationalError:
        return None


def test_a_killed_postgres_comes_back_with_its_data(lasting_toy: Toy) -> None:
    write_row(lasting_toy)
    victim = lasting_toy.child("postgres")
    victim.kill()
    wait_for("a new postgres", lambda: lasting_toy.new_child("postgres", victim))
    assert wait_for("the row", lambda: read_row(lasting_toy)) == (42,)
    assert "postgres ended with signal SIGKILL; starting it again" in lasting_toy.output


@pytest.mark.parametrize("name", ["valkey", "objects"])
def test_any_killed_service_comes_back(lasting_toy: Toy, name: str) -> None:
    victim = lasting_toy.child(name)
    victim.kill()
    wait_for(f"a new {name}", lambda: lasting_toy.new_child(name, victim))


def test_no_connection_is_refused_while_the_only_living_gateway_changes(lasting_toy: Toy) -> None:
    address = ("127.0.0.1", lasting_toy.port)
    served: set[str] = set()
    stop = threading.Event()
    refused: list[OSError] = []

    def call() -> None:
        while not stop.is_set():
            try:
                with socket.create_connection(address, timeout=30) as client:
                    client.sendall(b"GET / HTTP/1.0\r\n\r\n")
                    served.add(client.makefile().read().rsplit("\n", 1)[-1])
            except ConnectionRefusedError as error:
                refused.append(error)
            except ConnectionResetError:
                pass  # it was this gateway's own connection

    caller = threading.Thread(target=call)
    caller.start()
    victims = [lasting_toy.child("gateway-0"), lasting_toy.child("gateway-1")]
    for victim in victims:
        victim.kill()
    for name, victim in zip(("gateway-0", "gateway-1"), victims, strict=True):
        wait_for(f"a new {name}", partial(lasting_toy.new_child, name, victim))
    replacements = {
        str(lasting_toy.child("gateway-0").pid),
        str(lasting_toy.child("gateway-1").pid),
    }
    wait_for("an answer of a new gateway", lambda: served & replacements)
    stop.set()
    caller.join()
    assert refused == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_everything_and_leaves_no_process_and_no_lock(
    toy: Toy, number: signal.Signals
) -> None:
    children = toy.descendants()
    assert toy.stop(number) == 0
    assert [child for child in children if child.is_running()] == []
    left = {path.name for path in (toy.data_dir / "run").iterdir()}
    assert left.isdisjoint({"lock"})
    assert list((toy.data_dir / "run" / "children").iterdir()) == []
    assert not (toy.data_dir / "postgres" / "data" / "postmaster.pid").exists()


def test_a_signal_during_the_start_stops_what_was_started(
    start_toy: StartToy, folder: Path
) -> None:
    toy = start_toy(folder / "data")
    wait_for("a first child", lambda: list((toy.data_dir / "run").glob("children/*.json")))
    children = toy.descendants()
    assert toy.stop() == 0
    assert [child for child in children if child.is_running()] == []


def test_a_second_start_on_the_same_data_is_refused(lasting_toy: Toy, start_toy: StartToy) -> None:
    second = start_toy(lasting_toy.data_dir)
    assert second.process.wait(30) == 1
    refusal = second.output
    assert str(lasting_toy.data_dir) in refusal
    assert f"process {lasting_toy.process.pid}" in refusal
    assert "LORAPLEX_DATA_DIR" in refusal
    assert lasting_toy.get()


def test_a_busy_port_is_named_before_anything_starts(start_toy: StartToy, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        toy = start_toy(folder / "data", port)
        assert toy.process.wait(30) == 1
    assert f"Port {port} on 127.0.0.1 is in use by process {os.getpid()}" in toy.output
    assert "LORAPLEX_PORT" in toy.output
    assert not (toy.data_dir / "postgres").exists()


def test_after_a_kill_of_the_supervisor_the_next_start_has_its_data(
    toy: Toy, start_toy: StartToy
) -> None:
    write_row(toy)
    children = toy.descendants()
    toy.process.kill()
    toy.process.wait()
    second = start_toy(toy.data_dir, toy.port)
    second.wait_until_up()
    assert [child for child in children if is_alive(child)] == []
    assert read_row(second) == (42,)


def test_children_that_outlive_a_killed_supervisor_are_reaped(
    toy: Toy, start_toy: StartToy
) -> None:
    stopped = [toy.child(name) for name in ("valkey", "objects", "gateway-0")]
    for child in stopped:
        child.suspend()  # so that the signal of the kernel does not end it
    toy.process.kill()
    toy.process.wait()
    second = start_toy(toy.data_dir, toy.port)
    second.wait_until_up()
    assert [child for child in stopped if is_alive(child)] == []
    assert "ended valkey, left over from an earlier start" in second.output


def is_alive(process: psutil.Process) -> bool:
    try:
        alive: bool = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    return alive


def test_a_stranger_that_got_the_number_of_a_child_is_left_alone(
    start_toy: StartToy, folder: Path
) -> None:
    children = folder / "data" / "run" / "children"
    children.mkdir(parents=True)
    (children / "valkey.json").write_text(
        f'{{"process_id": {os.getpid()}, "identity": "another boot/123"}}'
    )
    data = folder / "data" / "postgres" / "data"
    toy = start_toy(folder / "data")
    toy.wait_until_up()
    toy.stop()
    # A PostgreSQL killed in a container whose next start hands out the same numbers.
    (data / "postmaster.pid").write_text(f"{os.getpid()}\n{data}\n")
    again = start_toy(folder / "data")
    again.wait_until_up()


def test_secrets_are_private_and_existing_folders_keep_their_modes(
    start_toy: StartToy, folder: Path
) -> None:
    folder.chmod(0o755)
    data_dir = folder / "data"
    data_dir.mkdir(mode=0o751)
    data_dir.chmod(0o751)
    toy = start_toy(data_dir)
    toy.wait_until_up()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o751
    for secret in (
        "postgres/superuser_password",
        "postgres/role_passwords.json",
        "valkey/password",
        "valkey/valkey.conf",
        "objects/secret_access_key",
        "run/services.json",
    ):
        assert stat.S_IMODE((data_dir / secret).stat().st_mode) == 0o600, secret
    for private in ("postgres", "postgres/data", "valkey", "objects", "objects/data", "run"):
        assert stat.S_IMODE((data_dir / private).stat().st_mode) == 0o700, private
    assert {path.stat().st_uid for path in data_dir.rglob("*")} == {os.geteuid()}


def test_an_ordinary_user_can_run_it(start_toy: StartToy, folder: Path) -> None:
    home = folder / "home"
    home.mkdir(mode=0o700)
    prefix: tuple[str, ...] = ()
    user_id = os.geteuid()
    if user_id == 0:
        os.chown(home, NOBODY, NOBODY)
        folder.chmod(0o711)
        user_id, prefix = NOBODY, become_nobody()
    toy = start_toy(home / "data", prefix=prefix)
    toy.wait_until_up()
    assert toy.child("postgres").uids().effective == user_id
    assert toy.get()


def test_root_can_run_it_inside_a_private_home_folder(start_toy: StartToy, folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, and this test run is an ordinary user's")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    toy = start_toy(folder / "data")
    toy.wait_until_up()
    assert toy.child("postgres").uids().effective == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
