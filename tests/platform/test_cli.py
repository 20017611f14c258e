"""The command line: what it lists, what it costs, and what a broken component does to it."""

import os
import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from loraplex.platform import cli
from loraplex.platform.embedded.own_services import URL_SETTING
from loraplex.platform.embedded.ports import free_port

COMMANDS = (
    *("serve", "migrate", "controller", "jobs", "tenant", "key"),
    *("model", "worker", "adapter", "demo", "gateway"),
)
HEAVY = {"torch", "transformers", "sqlalchemy", "fastapi", "celery", "boto3"}
"""Each takes a good part of a second to import."""


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "loraplex.platform.cli", *arguments],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_help_lists_every_command_of_every_component(tmp_path: Path) -> None:
    done = run("--help", cwd=tmp_path)
    assert done.returncode == 0
    for command in COMMANDS:
        assert f" {command} " in done.stdout, command
    assert "cannot be loaded" not in done.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["gateway", "--help"]])
def test_help_starts_without_the_heavy_libraries(arguments: list[str]) -> None:
    script = (
        "import contextlib, sys\n"
        f"sys.argv = ['loraplex', *{arguments!r}]\n"
        "from loraplex.platform import cli\n"
        "with contextlib.suppress(SystemExit): cli.main()\n"
        f"print('loaded', sorted({HEAVY!r} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.endswith("loaded []\n")


def test_a_broken_component_is_named_and_the_others_work(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("wreck", "loraplex.no_such_module:command", cli.GROUP)
    odd = EntryPoint("number", "math:pi", cli.GROUP)
    found = entry_points(group=cli.GROUP)
    monkeypatch.setattr(cli, "entry_points", lambda group: (*found, broken, odd))
    runner = CliRunner(env={"COLUMNS": "200"})
    listed = runner.invoke(cli.app, ["--help"])
    assert listed.exit_code == 0
    assert "cannot be loaded: ModuleNotFoundError: No module named 'loraplex.no_such_module'" in (
        listed.output
    )
    called = runner.invoke(cli.app, ["wreck", "--any", "thing"])
    assert called.exit_code == 1
    assert "`loraplex wreck` cannot be loaded" in called.output
    assert runner.invoke(cli.app, ["number"]).exit_code == 1
    assert runner.invoke(cli.app, ["tenant", "--help"]).exit_code == 0


def test_a_function_and_an_application_are_both_commands() -> None:
    group = typer.Typer()

    @group.command()
    def first() -> None: ...

    @group.command()
    def second() -> None: ...

    assert cli.as_command("single", first).name == "single"
    assert cli.as_command("several", group).name == "several"


def test_a_refusal_is_a_sentence_and_not_a_traceback(tmp_path: Path) -> None:
    done = run("migrate", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("loraplex: LORAPLEX_DATABASE_MIGRATOR_URL is not set")
    assert "Traceback" not in done.stderr


def test_a_database_of_ones_own_needs_a_url_for_each_role(tmp_path: Path) -> None:
    done = run("serve", cwd=tmp_path, LORAPLEX_DATABASE_URL="postgresql://db.example/loraplex")
    assert done.returncode == 1
    assert "LORAPLEX_DATABASE_MIGRATOR_URL and LORAPLEX_DATABASE_SYSTEM_URL" in done.stderr
    assert not (tmp_path / ".loraplex" / "run" / "lock").exists()


def test_a_model_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    done = run("serve", "--model", "no-such-model", "--port", str(free_port()), cwd=tmp_path)
    assert done.returncode == 1
    assert "no-such-model" in done.stderr


def test_each_role_of_the_database_has_its_url() -> None:
    from loraplex.platform.database.roles import ROLES

    assert set(URL_SETTING) == set(ROLES)
