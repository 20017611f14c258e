"""`loraplex adapter rollout`: a share of an alias's conversations for another version."""

from typing import Annotated, Any

import typer

from loraplex.adapters_registry.adapter_arguments import Alias, Name, Version, place
from loraplex.platform.management_client import Json, segment
from loraplex.platform.management_commands import (
    LOCAL,
    ApiKey,
    ApiUrl,
    AsJson,
    connected,
    print_found,
)

rollout = typer.Typer(help="Give a share of an alias to another version.", no_args_is_help=True)

RolloutId = Annotated[str, typer.Argument(metavar="ROLLOUT", help="As `rollout list` shows it.")]
Weight = Annotated[int, typer.Argument(min=0, max=100, help="Of 100 conversations.")]


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
    weight: Weight,
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
    weight: Weight,
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


def tell_rollouts(found: list[Json], as_json: bool) -> None:
    columns = ("rollout", "alias", "from", "to", "share", "status", "errors", "ended by")
    print_found(found, as_json, columns, rollout_row, empty="No rollouts yet.")


def rollout_row(one: Json) -> tuple[object, ...]:
    return (
        one["id"],
        one["alias"],
        f"v{one['stable_version']}",
        f"v{one['version']}",
        f"{one['weight']} %",
        one["status"],
        f"{one['observed_errors']}/{one['observed_requests']}",
        one["end_reason"],
    )
