"""Loraplex's own processes as children of the supervisor, by the command line of each."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from loraplex.platform.embedded.processes import Command


def cli(*arguments: str) -> tuple[str, ...]:
    """The command line that runs one of our commands in this same Python."""
    return (sys.executable, "-m", "loraplex.platform.cli", *arguments)


def alive() -> None:
    """The probe of a program that counts as ready while its process lives."""


@dataclass(frozen=True)
class Program:
    """A child that needs nothing prepared."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    probe: Callable[[], None] = alive
    pass_fds: tuple[int, ...] = ()

    def prepare(self) -> None:
        pass

    def command(self) -> Command:
        return Command(self.argv, self.env, pass_fds=self.pass_fds)
