"""`loraplex adapter import`: have the platform fetch an adapter from where it lies."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loraplex.platform.management_client import ApiRefused, Json
from loraplex.platform.management_commands import LOCAL, ApiKey, ApiUrl

if TYPE_CHECKING:
    from loraplex.adapters_registry.client import RegistryClient

POLL_SECONDS = 0.5
S3_OPTIONS = ("endpoint", "region", "access_key_id", "secret_access_key", "session_token")
HUB_OPTIONS = ("revision", "folder", "token")


def import_(
    source: Annotated[
        str,
        typer.Argument(
            help="s3://bucket/folder, https://… (a folder or an archive), or OWNER/NAME of the hub."
        ),
    ],
    name: Annotated[str, typer.Option(help="The adapter's name; it is made when missing.")],
    api_key: ApiKey,
    endpoint: Annotated[
        str | None, typer.Option(help="Of s3: the store's address where it is not Amazon's.")
    ] = None,
    region: Annotated[str | None, typer.Option(help="Of s3.")] = None,
    access_key_id: Annotated[
        str | None, typer.Option(envvar="LORAPLEX_IMPORT_ACCESS_KEY_ID", help="Of s3.")
    ] = None,
    secret_access_key: Annotated[
        str | None, typer.Option(envvar="LORAPLEX_IMPORT_SECRET_ACCESS_KEY", help="Of s3.")
    ] = None,
    session_token: Annotated[
        str | None, typer.Option(envvar="LORAPLEX_IMPORT_SESSION_TOKEN", help="Of s3.")
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="Of the hub: a branch, tag or commit.")
    ] = None,
    folder: Annotated[str | None, typer.Option(help="Of the hub: where it lies.")] = None,
    token: Annotated[
        str | None, typer.Option(envvar="LORAPLEX_IMPORT_TOKEN", help="Of the hub.")
    ] = None,
    api_url: ApiUrl = LOCAL,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for it to be ready.")] = 600,
) -> None:
    """Import an adapter as a new version and wait until it is ready.

    Exits with 0 when the version is ready, 1 when the import failed or the version is rejected, 3
    when the platform cannot be reached, 4 when it takes longer than --timeout, and goes on then.
    """
    from loraplex.adapters_registry.commands import REJECTED, connected, tell

    own = {
        "endpoint": endpoint,
        "region": region,
        "access_key_id": access_key_id,
        "secret_access_key": secret_access_key,
        "session_token": session_token,
        "revision": revision,
        "folder": folder,
        "token": token,
    }
    body = {"adapter": name, "source": source_of(source, own)}
    deadline = time.monotonic() + timeout
    with connected(api_url, api_key) as client:
        number = imported(client, body, deadline)
        version = client.wait(name, number, deadline - time.monotonic())
    tell(version)
    if version["status"] == "rejected":
        raise typer.Exit(REJECTED)


def source_of(source: str, options: dict[str, str | None]) -> Json:
    """The source as the API takes it; raises BadParameter for options of another kind."""
    found: dict[str, Any]
    known: tuple[str, ...] = ()
    if source.startswith("s3://"):
        found, known = {"kind": "s3", "url": source}, S3_OPTIONS
    elif "://" in source:
        found = {"kind": "https", "url": source}
    else:
        found, known = {"kind": "hub", "repository": source}, HUB_OPTIONS
    given = {option: value for option, value in options.items() if value is not None}
    strange = sorted(given.keys() - set(known))
    if strange:
        flags = ", ".join(f"--{option.replace('_', '-')}" for option in strange)
        raise typer.BadParameter(f"{source} takes no {flags}.")
    return found | given


def imported(client: "RegistryClient", body: Json, deadline: float) -> int:
    """The number of the version that it became; raises ApiRefused and ValidationPending."""
    from loraplex.adapters_registry.client import ValidationPending

    one = client.call("POST", "imports", json=body)
    while one["status"] in ("queued", "fetching"):
        if time.monotonic() >= deadline:
            raise ValidationPending(f"The import {one['id']} is still {one['status']}.")
        time.sleep(POLL_SECONDS)
        one = client.call("GET", f"imports/{one['id']}")
    if one["status"] == "failed":
        raise ApiRefused(f"The import failed. {one['error']['message']}")
    number: int = one["version"]
    return number
