"""The commands `loraplex bench …`. Start without torch, and without what only one of them needs."""

import typer

from loraplex.engine.benchmarks.offline_command import offline_command
from loraplex.engine.benchmarks.serve.command import serve_command

bench = typer.Typer(help="Measure an engine, or a server.", no_args_is_help=True)
bench.command("offline")(offline_command)
bench.command("serve")(serve_command)
