"""The `loraplex` command: its own commands, and those that components contribute.

A component's commands come from the entry-point group `loraplex.commands` and are imported only
when they are asked for, so that one that is broken or slow costs the others nothing.
"""

import asyncio
import sys
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated, Any, cast

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from loraplex.engine.protocol.errors import DomainError

GROUP = "loraplex.commands"
AnyCommand = TyperCommand | TyperGroup


class ComponentCommands(TyperGroup):
    """A group that knows the names of contributed commands before it imports them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *OWN_GROUPS, *sorted(self._contributed())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        own = OWN_GROUPS.get(cmd_name) or super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        entry = self._contributed().get(cmd_name)
        if entry is None:
            return None
        try:
            return as_command(cmd_name, entry.load())
        except Exception as error:  # any failure of a component is its own
            return broken_command(cmd_name, error)

    @staticmethod
    def _contributed() -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entry_points(group=GROUP)}


class LateGroup(TyperGroup):
    """One of the platform's own groups, whose module is imported when one of its commands is."""

    def __init__(self, name: str, module: str, description: str) -> None:
        super().__init__(name=name, help=description, no_args_is_help=True)
        self._module = module

    def list_commands(self, ctx: Any) -> list[str]:
        return self._loaded().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self._loaded().get_command(ctx, cmd_name)

    def _loaded(self) -> TyperGroup:
        group = getattr(import_module(self._module), str(self.name))
        return cast(TyperGroup, typer.main.get_command(group))


def as_command(name: str, contributed: object) -> AnyCommand:
    """A Typer application as a group, a function as one command."""
    if isinstance(contributed, typer.Typer):
        command: Any = typer.main.get_command(contributed)
    elif callable(contributed):
        single = typer.Typer(add_completion=False)
        single.command(name)(contributed)
        command = typer.main.get_command(single)
    else:
        raise TypeError(f"the command {name!r} is a {type(contributed).__name__}")
    command.name = name
    return cast(AnyCommand, command)


def broken_command(name: str, error: Exception) -> AnyCommand:
    """Stands in for a component that cannot be imported: named in the help, fails when called."""
    reason = f"{type(error).__name__}: {error}"

    def fail() -> None:
        typer.echo(f"`loraplex {name}` cannot be loaded: {reason}", err=True)
        raise typer.Exit(1) from error

    fail.__doc__ = f"(cannot be loaded: {reason})"
    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    single = typer.Typer(add_completion=False)
    single.command(name, context_settings=settings)(fail)
    return cast(AnyCommand, typer.main.get_command(single))


TENANCY = "loraplex.platform.tenancy.commands"
SWITCHES = "loraplex.platform.switches.commands"
METERING = "loraplex.platform.metering.commands"
LIFECYCLE = "loraplex.platform.lifecycle.commands"
PEOPLE = "loraplex.platform.people.commands"
OWN_GROUPS = {
    "tenant": LateGroup("tenant", LIFECYCLE, "Make tenants, suspend, export and delete them."),
    "member": LateGroup("member", PEOPLE, "Invite and remove members of a tenant."),
    "admin": LateGroup("admin", PEOPLE, "Invite the people who operate the platform."),
    "key": LateGroup("key", TENANCY, "Create, list and revoke API keys."),
    "slo": LateGroup(
        "slo", "loraplex.platform.slo.commands", "Choose tenants' and keys' classes of service."
    ),
    "prefix": LateGroup(
        "prefix", "loraplex.platform.public_prefixes.commands", "Declare system prompts public."
    ),
    "switch": LateGroup("switch", SWITCHES, "Turn changes, uploads or a pool off for everybody."),
    "pool": LateGroup("pool", SWITCHES, "Drain pools of workers."),
    "price": LateGroup("price", METERING, "Make and list prices."),
    "usage": LateGroup("usage", METERING, "Check usage, or make it anew."),
    "webhook": LateGroup(
        "webhook", "loraplex.platform.webhooks.commands", "Manage a tenant's webhooks."
    ),
}

app = typer.Typer(
    cls=ComponentCommands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Serve many tenants' LoRA adapters from one copy of a base model.",
)


@app.command()
def serve(
    workers: Annotated[int | None, typer.Option(min=1, help="Engine workers.")] = None,
    gateways: Annotated[int | None, typer.Option(min=1, help="Gateway processes.")] = None,
    model: Annotated[
        str | None, typer.Option(help="A name in <data dir>/models, or a model's directory.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Public port.")] = None,
) -> None:
    """Start everything on this machine, embedded services included, until Ctrl-C."""
    from loraplex.platform.embedded.serve import serve as run

    options = {"workers": workers, "gateways": gateways, "model": model, "port": port}
    run(**{name: value for name, value in options.items() if value is not None})


@app.command()
def migrate() -> None:
    """Bring the database's schema to this version's revision."""
    from loraplex.platform.database.migrate import upgrade
    from loraplex.platform.settings import MissingSetting, Settings

    url = Settings().database_migrator_url
    if url is None:
        raise MissingSetting("LORAPLEX_DATABASE_MIGRATOR_URL")
    upgrade(url.get_secret_value())


@app.command()
def backup(
    target: Annotated[Path, typer.Argument(help="A new folder, or a new file that ends in .tar.")],
    include_secrets: Annotated[
        bool,
        typer.Option(
            "--include-secrets/--without-secrets",
            help="The secret key and credentials.json too: who has them can forge keys.",
        ),
    ],
) -> None:
    """Back up this data directory's database and adapters, also while it serves."""
    from loraplex.platform.backup.taking import take
    from loraplex.platform.settings import Settings

    made = take(Settings().data_dir, target, with_secrets=include_secrets)
    secrets = "with secrets" if made.has_secrets else "without secrets: keep secret_key elsewhere"
    typer.echo(f"{target}: {len(made.files)} files, {made.size_bytes} bytes, {secrets}")


@app.command()
def restore(
    source: Annotated[Path, typer.Argument(help="What `loraplex backup` wrote.", exists=True)],
    secret_key_file: Annotated[
        Path | None,
        typer.Option(help="The secret_key of the backed-up installation.", exists=True),
    ] = None,
) -> None:
    """Make a backup's installation in an empty data directory, to be started by `serve`."""
    from loraplex.platform.backup.restoring import restore as put_back
    from loraplex.platform.settings import Settings

    data_dir = Settings().data_dir
    made = put_back(source, data_dir, secret_key_file)
    typer.echo(f"{data_dir} is as it was at {made.created_at}; start it with `loraplex serve`")


@app.command()
def controller() -> None:
    """Run the controller: worker registration, the outbox relay and webhooks."""
    from loraplex.platform.logs import log_as_set
    from loraplex.platform.metrics_folder import share_metrics
    from loraplex.platform.settings import Settings

    settings = Settings()
    log_as_set(settings)
    share_metrics(settings, "controller")

    from loraplex.platform.pools.controller import run_controller

    asyncio.run(run_controller(settings))


@app.command()
def jobs(
    concurrency: Annotated[int, typer.Option(min=1, help="Jobs at once.")] = 4,
) -> None:
    """Run the background jobs: a Celery worker with its beat."""
    from loraplex.platform.metrics_folder import share_metrics
    from loraplex.platform.settings import Settings

    settings = Settings()
    share_metrics(settings, "jobs")

    from loraplex.platform.jobs import make_celery

    make_celery(settings).worker_main(
        [
            "worker",
            "--beat",
            f"--concurrency={concurrency}",
            "--loglevel=INFO",
            # One worker: it has nobody to gossip with, and starts faster without.
            "--without-gossip",
            "--without-mingle",
        ]
    )


def main() -> None:
    """Run a command; a refusal is a sentence on stderr and status 1, never a traceback."""
    try:
        app()
    except DomainError as error:
        typer.echo(f"loraplex: {error.message}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
