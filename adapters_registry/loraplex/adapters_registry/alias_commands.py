"""`loraplex adapter alias`: what a name such as `prod` means."""

from typing import Annotated

import typer

from loraplex.adapters_registry.adapter_arguments import Alias, Name, Version, place
from loraplex.platform.management_client import ApiRefused, Json, ManagementClient, segment
from loraplex.platform.management_commands import (
    LOCAL,
    ApiKey,
    ApiUrl,
    AsJson,
    connected,
    moment,
    print_found,
    print_json,
)

alias = typer.Typer(help="Point names such as `prod` at versions.", no_args_is_help=True)

Generation = Annotated[
    int | None,
    typer.Option(help="Only if the alias is still at this generation. Default: as it is now."),
]
NOT_FOUND = 404


@alias.command("list")
def list_aliases(
    name: Name, api_key: ApiKey, api_url: ApiUrl = LOCAL, as_json: AsJson = False
) -> None:
    """List an adapter's aliases."""
    with connected(api_url, api_key) as client:
        found = client.items(f"{place(name)}/aliases")
    columns = ("alias", "version", "generation", "moved")
    print_found(found, as_json, columns, alias_row, empty="No aliases yet.")


@alias.command("set")
def set_alias(
    name: Name,
    alias_name: Alias,
    version: Version,
    api_key: ApiKey,
    generation: Generation = None,
    api_url: ApiUrl = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Point an alias at a version; it is made when missing."""
    path = f"{place(name)}/aliases/{segment(alias_name)}"
    with connected(api_url, api_key) as client:
        headers = condition(client, path, generation)
        tell_alias(client.call("PUT", path, json={"version": version}, headers=headers), as_json)


@alias.command("rollback")
def roll_back_alias(
    name: Name,
    alias_name: Alias,
    api_key: ApiKey,
    generation: Generation = None,
    api_url: ApiUrl = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Point an alias at what it pointed at before its last move."""
    path = f"{place(name)}/aliases/{segment(alias_name)}"
    with connected(api_url, api_key) as client:
        headers = condition(client, path, generation)
        tell_alias(client.call("POST", f"{path}/rollback", headers=headers), as_json)


@alias.command("rm")
def remove_alias(
    name: Name,
    alias_name: Alias,
    api_key: ApiKey,
    generation: Generation = None,
    api_url: ApiUrl = LOCAL,
) -> None:
    """Make an alias mean nothing."""
    path = f"{place(name)}/aliases/{segment(alias_name)}"
    with connected(api_url, api_key) as client:
        client.call("DELETE", path, headers=condition(client, path, generation))
    typer.echo(f"{name}:{alias_name} is removed.")


@alias.command("moves")
def list_moves(
    name: Name, alias_name: Alias, api_key: ApiKey, api_url: ApiUrl = LOCAL, as_json: AsJson = False
) -> None:
    """Show every move of an alias, newest first."""
    with connected(api_url, api_key) as client:
        found = client.items(f"{place(name)}/aliases/{segment(alias_name)}/moves")
    columns = ("generation", "kind", "from", "to", "moved")
    print_found(found, as_json, columns, move_row, empty="It never moved.")


def condition(client: ManagementClient, path: str, generation: int | None) -> dict[str, str]:
    """The If-Match of a move: the generation given, else the one it is at; none for a new alias."""
    if generation is None:
        try:
            generation = client.call("GET", path)["generation"]
        except ApiRefused as error:
            if error.status != NOT_FOUND:
                raise
    return {} if generation is None else {"If-Match": f'"{generation}"'}


def tell_alias(one: Json, as_json: bool) -> None:
    if as_json:
        print_json(one)
        return
    typer.echo(f"{one['model']} is version {one['version']} (generation {one['generation']}).")


def alias_row(one: Json) -> tuple[object, ...]:
    return one["alias"], f"v{one['version']}", one["generation"], moment(one["moved_at"])


def move_row(one: Json) -> tuple[object, ...]:
    kind, moved = one["kind"], moment(one["moved_at"])
    return one["generation"], kind, one["from_version"], one["to_version"], moved
