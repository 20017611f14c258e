"""`loraplex adapter rm|restore|pin|unpin`: what stays in service, and in the engines' memory."""

from typing import Annotated

import typer

from loraplex.adapters_registry.adapter_arguments import Name, place
from loraplex.platform.management_commands import LOCAL, ApiKey, ApiUrl, connected

OneVersion = Annotated[
    int | None, typer.Option("--version", min=1, help="Only this version of the adapter.")
]


def rm(name: Name, api_key: ApiKey, version: OneVersion = None, api_url: ApiUrl = LOCAL) -> None:
    """Take an adapter, or one version, out of service; `restore` undoes it for a while."""
    with connected(api_url, api_key) as client:
        client.call("DELETE", place(name, version))
    typer.echo(f"{shown(name, version)} is deleted; `loraplex adapter restore` brings it back.")


def restore(
    name: Name, api_key: ApiKey, version: OneVersion = None, api_url: ApiUrl = LOCAL
) -> None:
    """Undo `rm`."""
    with connected(api_url, api_key) as client:
        client.call("POST", f"{place(name, version)}/restore")
    typer.echo(f"{shown(name, version)} is back.")


def pin(name: Name, api_key: ApiKey, api_url: ApiUrl = LOCAL) -> None:
    """Keep an adapter in the engines' memory, within your quota."""
    with connected(api_url, api_key) as client:
        client.call("PUT", f"{place(name)}/pin")
    typer.echo(f"{name} is pinned.")


def unpin(name: Name, api_key: ApiKey, api_url: ApiUrl = LOCAL) -> None:
    """Let an adapter make room for others again."""
    with connected(api_url, api_key) as client:
        client.call("DELETE", f"{place(name)}/pin")
    typer.echo(f"{name} is no longer pinned.")


def shown(name: str, version: int | None) -> str:
    return name if version is None else f"{name}:v{version}"
