"""Starts the toy platform as a process and looks at it from outside."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from loraplex.platform.embedded.ports import free_port
from tests.platform.embedded import toy_platform

Found = TypeVar("Found")
ROOT = Path(__file__).parents[3]


def wait_for(what: str, look: Callable[[], Found], seconds: float = 30) -> Found:
    """The first true thing that `look` finds; fails naming what was waited for."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s in vain for {what}")


@dataclass
class Toy:
    """A running toy platform."""

    data_dir: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def output(self) -> str:
        return (self.data_dir.parent / f"{self.data_dir.name}.out").read_text()

    @property
    def services(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.data_dir / "run" / "services.json").read_text())
        return found

    def descendants(self) -> list[psutil.Process]:
        found: list[psutil.Process] = psutil.Process(self.process.pid).children(recursive=True)
        return found

    def child(self, name: str) -> psutil.Process:
        record = json.loads((self.data_dir / "run" / "children" / f"{name}.json").read_text())
        return psutil.Process(record["process_id"])

    def new_child(self, name: str, old: psutil.Process) -> psutil.Process | None:
        """The child of this name once it is another process than `old`."""
        try:
            child = self.child(name)
        except (FileNotFoundError, psutil.NoSuchProcess):
            return None
        return child if child.pid != old.pid else None

    def get(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}", timeout=30) as answer:
            text: str = answer.read().decode()
            return text

    def wait_until_up(self) -> None:
        def is_up() -> bool:
            code = self.process.poll()
            assert code is None, f"ended with {code}: {self.output}"
            return "up" in self.output.splitlines()

        wait_for("the toy platform to be up", is_up, seconds=90)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(20)


StartToy = Callable[..., Toy]


def launch(data_dir: Path, port: int | None = None, prefix: Sequence[str] = ()) -> Toy:
    """Start a toy platform; `prefix` is put before its command."""
    port = port or free_port()
    with (data_dir.parent / f"{data_dir.name}.out").open("wb") as out:
        process = subprocess.Popen(
            [*prefix, sys.executable, toy_platform.__file__, str(data_dir), str(port)],
            cwd=data_dir.parent,
            env={"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    return Toy(data_dir, port, process)


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder with a short path that every user may reach, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="loraplex-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as path:
        yield path


@pytest.fixture
def start_toy(folder: Path) -> Iterator[StartToy]:
    """Starts toy platforms in `folder`; what a test leaves running is stopped."""
    started: list[Toy] = []

    def start(data_dir: Path, port: int | None = None, prefix: Sequence[str] = ()) -> Toy:
        started.append(launch(data_dir, port, prefix))
        return started[-1]

    yield start
    for toy in started:
        if toy.process.poll() is None:
            toy.stop()


@pytest.fixture(scope="module")
def lasting_toy() -> Iterator[Toy]:
    """One that tests share, since they leave it running."""
    with short_folder() as path:
        toy = launch(path / "data")
        try:
            toy.wait_until_up()
            yield toy
        finally:
            toy.stop()


@pytest.fixture
def toy(start_toy: StartToy, folder: Path) -> Toy:
    """One of the test's own, to be stopped or killed."""
    toy = start_toy(folder / "data")
    toy.wait_until_up()
    return toy
