"""`loraplex webhook`: a tenant's webhooks from the command line."""

from typing import Annotated

import typer

from loraplex.platform.management_client import Json
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

webhook = typer.Typer(
    help="Have events sent to your server, and see what became of them.",
    no_args_is_help=True,
    add_completion=False,
)

WebhookId = Annotated[str, typer.Argument(metavar="WEBHOOK", help="As `webhook list` shows it.")]
Events = Annotated[
    list[str] | None,
    typer.Option("--event", help="An event to send; repeat for more. Default: all."),
]


@webhook.command("list")
def list_(api_key: ApiKey, api_url: ApiUrl = LOCAL, as_json: AsJson = False) -> None:
    """List your webhooks, oldest first."""
    with connected(api_url, api_key) as client:
        found = client.items("webhooks")
    columns = ("webhook", "address", "events", "state")
    empty = "No webhooks yet: `loraplex webhook create` makes one."
    print_found(found, as_json, columns, webhook_row, empty=empty)


@webhook.command()
def create(
    url: Annotated[str, typer.Argument(help="An https address on the public internet.")],
    api_key: ApiKey,
    event: Events = None,
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    api_url: ApiUrl = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Have events sent to an address, and print the signing secret: it is shown this once."""
    body = {"url": url, "description": description, "event_types": event or []}
    with connected(api_url, api_key) as client:
        tell_secret(client.call("POST", "webhooks", json=body), as_json)


@webhook.command()
def show(
    webhook_id: WebhookId, api_key: ApiKey, api_url: ApiUrl = LOCAL, as_json: AsJson = False
) -> None:
    """Show a webhook."""
    with connected(api_url, api_key) as client:
        tell(client.call("GET", f"webhooks/{webhook_id}"), as_json)


@webhook.command()
def enable(
    webhook_id: WebhookId, api_key: ApiKey, api_url: ApiUrl = LOCAL, as_json: AsJson = False
) -> None:
    """Send to a webhook again that was disabled."""
    with connected(api_url, api_key) as client:
        tell(client.call("PATCH", f"webhooks/{webhook_id}", json={"is_enabled": True}), as_json)


@webhook.command()
def disable(
    webhook_id: WebhookId, api_key: ApiKey, api_url: ApiUrl = LOCAL, as_json: AsJson = False
) -> None:
    """Send nothing more; what is on its way is cancelled."""
    with connected(api_url, api_key) as client:
        tell(client.call("PATCH", f"webhooks/{webhook_id}", json={"is_enabled": False}), as_json)


@webhook.command("rotate-secret")
def rotate_secret(
    webhook_id: WebhookId,
    api_key: ApiKey,
    overlap_seconds: Annotated[
        int, typer.Option(min=0, help="How long the old secret signs beside the new one.")
    ] = 86400,
    api_url: ApiUrl = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Make a new signing secret and print it: it is shown this once."""
    path = f"webhooks/{webhook_id}/rotate-secret"
    with connected(api_url, api_key) as client:
        tell_secret(client.call("POST", path, json={"overlap_seconds": overlap_seconds}), as_json)


@webhook.command()
def test(
    webhook_id: WebhookId, api_key: ApiKey, api_url: ApiUrl = LOCAL, as_json: AsJson = False
) -> None:
    """Send a `webhook.test` there; `webhook deliveries` tells how it went."""
    with connected(api_url, api_key) as client:
        tell_deliveries([client.call("POST", f"webhooks/{webhook_id}/test")], as_json)


@webhook.command()
def deliveries(
    webhook_id: WebhookId,
    api_key: ApiKey,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 20,
    api_url: ApiUrl = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Show what was sent to a webhook, and how its last attempt went."""
    with connected(api_url, api_key) as client:
        tell_deliveries(client.items(f"webhooks/{webhook_id}/deliveries", limit), as_json)


@webhook.command()
def retry(
    webhook_id: WebhookId,
    delivery: Annotated[str, typer.Argument(help="As `webhook deliveries` shows it.")],
    api_key: ApiKey,
    api_url: ApiUrl = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Send a delivery that has ended once more."""
    path = f"webhooks/{webhook_id}/deliveries/{delivery}/retry"
    with connected(api_url, api_key) as client:
        tell_deliveries([client.call("POST", path)], as_json)


@webhook.command()
def rm(webhook_id: WebhookId, api_key: ApiKey, api_url: ApiUrl = LOCAL) -> None:
    """Delete a webhook with the record of its deliveries."""
    with connected(api_url, api_key) as client:
        client.call("DELETE", f"webhooks/{webhook_id}")
    typer.echo(f"Webhook {webhook_id} is deleted.")


def state_of(one: Json) -> str:
    return "enabled" if one["is_enabled"] else f"disabled ({one['disabled_reason']})"


def events_of(one: Json) -> str:
    return ", ".join(one["event_types"]) or "all"


def webhook_row(one: Json) -> tuple[object, ...]:
    return one["id"], one["url"], events_of(one), state_of(one)


def tell(one: Json, as_json: bool) -> None:
    if as_json:
        print_json(one)
        return
    typer.echo(f"{one['url']} is {state_of(one)}.")
    typer.echo(f"  events: {events_of(one)}")
    if one["consecutive_failures"]:
        typer.echo(f"  deliveries given up in a row: {one['consecutive_failures']}")


def tell_secret(one: Json, as_json: bool) -> None:
    """The secret alone on standard output, so that a script can keep it."""
    if as_json:
        print_json(one)
        return
    typer.echo(f"Webhook {one['id']}; keep its secret now, it is not shown again:", err=True)
    typer.echo(one["secret"])


def tell_deliveries(found: list[Json], as_json: bool) -> None:
    columns = ("delivery", "event", "status", "attempts", "last answer", "next attempt")
    print_found(found, as_json, columns, delivery_row, empty="Nothing was sent there yet.")


def delivery_row(one: Json) -> tuple[object, ...]:
    attempts, next_at = len(one["attempts"]), moment(one["next_attempt_at"])
    return one["id"], one["event_type"], one["status"], attempts, last_answer(one), next_at


def last_answer(one: Json) -> object:
    if not one["attempts"]:
        return None
    last = one["attempts"][-1]
    return last["error"] if last["status_code"] is None else last["status_code"]
