"""`loraplex adapter alias|rollout|pin|unpin|rm|restore`: what a name means, and what is kept."""

from typing import Annotated, Any

import typer

from loraplex.platform.management_client import ApiRefused, Json, ManagementClient, segment
from loraplex.platform.management_commands import (
    LOCAL,
    ApiKey,
    ApiUrl,
    AsJson,
    connected,
    moment,
    print_json,
    print_table,
)

alias = typer.Typer(help="Point names such as `prod` at versions.", no_args_is_help=True)
rollout = typer.Typer(help="Give a share of an alias to another version.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="ADAPTER")]
Alias = Annotated[str, typer.Argument(metavar="ALIAS")]
Version = Annotated[int, typer.Argument(min=1, metavar="VERSION")]
RolloutId = Annotated[str, typer.Argument(metavar="ROLLOUT", help="As `rollout list` shows it.")]
Generation = Annotated[
    int | None,
    typer.Option(help="Only if the alias is still at this generation. Default: as it is now."),
]
OneVersion = Annotated[
    int | None, typer.Option("--version", min=1, help="Only this version of the adapter.")
]
NOT_FOUND = 404


@alias.command("list")
def list_aliases(
    name: Name, api_key: ApiKey, api_url: ApiUrl = LOCAL, as_json: AsJson = False
) -> None:
    """List an adapter's aliases."""
    with connected(api_url, api_key) as client:
        found = client.items(f"{place(name)}/aliases")
    if as_json:
        print_json(found)
        return
    rows = [
        (one["alias"], f"v{one['version']}", one["generation"], moment(one["moved_at"]))
        for one in found
    ]
    print_table(("alias", "version", "generation", "moved"), rows, empty="No aliases yet.")


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
    if as_json:
        print_json(found)
        return
    rows = [
        (
            one["generation"],
            one["kind"],
            one["from_version"],
            one["to_version"],
            moment(one["moved_at"]),
        )
        for one in found
    ]
    print_table(("generation", "kind", "from", "to", "moved"), rows, empty="It never moved.")


@rollout.command("list")
def list_rollouts(
    name: Name, api_key: ApiKey, api_url: ApiUrl = LOCAL, as_json: AsJson = False
) -> None:
    """List an adapter's rollouts, newest first."""
    with connected(api_url, api_key) as client:
        tell_rollouts(client.items(f"{place(name)}/rollouts"), as_json)


@rollout.command("start")
def start_rollout(
    name: Name,
    alias_name: Alias,
    version: Version,
    weight: Annotated[int, typer.Argument(min=0, max=100, help="Of 100 conversations.")],
    api_key: ApiKey,
    error_rate_limit: Annotated[
        int | None, typer.Option(min=0, max=100, help="Percent of errors that roll it back.")
    ] = None,
    api_url: ApiUrl = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Give a share of an alias's conversations to another version."""
    body: dict[str, Any] = {"alias": alias_name, "version": version, "weight": weight}
    if error_rate_limit is not None:
        body["error_rate_limit"] = error_rate_limit
    with connected(api_url, api_key) as client:
        tell_rollouts([client.call("POST", f"{place(name)}/rollouts", json=body)], as_json)


@rollout.command("weight")
def change_weight(
    name: Name,
    rollout_id: RolloutId,
    weight: Annotated[int, typer.Argument(min=0, max=100, help="Of 100 conversations.")],
    api_key: ApiKey,
    api_url: ApiUrl = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Change the share of the new version."""
    path = f"{place(name)}/rollouts/{segment(rollout_id)}"
    with connected(api_url, api_key) as client:
        tell_rollouts([client.call("PATCH", path, json={"weight": weight})], as_json)


def _step(word: str, description: str) -> None:
    """A command that takes a rollout one step on."""

    def step(
        name: Name,
        rollout_id: RolloutId,
        api_key: ApiKey,
        api_url: ApiUrl = LOCAL,
        as_json: AsJson = False,
    ) -> None:
        path = f"{place(name)}/rollouts/{segment(rollout_id)}/{word}"
        with connected(api_url, api_key) as client:
            tell_rollouts([client.call("POST", path)], as_json)

    rollout.command(word, help=description)(step)


_step("pause", "Give the new version nothing, for now.")
_step("resume", "Give the new version its share again.")
_step("promote", "Point the alias at the new version.")
_step("roll-back", "End it; the alias stays where it was.")


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


def place(name: str, version: int | None = None) -> str:
    path = f"adapters/{segment(name)}"
    return path if version is None else f"{path}/versions/{version}"


def shown(name: str, version: int | None) -> str:
    return name if version is None else f"{name}:v{version}"


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


def tell_rollouts(found: list[Json], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    rows = [
        (
            one["id"],
            one["alias"],
            f"v{one['stable_version']}",
            f"v{one['version']}",
            f"{one['weight']} %",
            one["status"],
            f"{one['observed_errors']}/{one['observed_requests']}",
            one["end_reason"],
        )
        for one in found
    ]
    columns = ("rollout", "alias", "from", "to", "share", "status", "errors", "ended by")
    print_table(columns, rows, empty="No rollouts yet.")
