"""`loraplex gateway`: one gateway process on a socket of its own or an inherited one."""

from typing import Annotated

import typer


def gateway(
    fd: Annotated[
        int | None,
        typer.Option(help="A listening socket to inherit, shared with other gateways."),
    ] = None,
) -> None:
    """Serve the HTTP API and the web app."""
    from loraplex.platform.logs import log_as_set
    from loraplex.platform.metrics_folder import share_metrics
    from loraplex.platform.settings import Settings

    settings = Settings()
    log_as_set(settings)
    share_metrics(settings, "gateway")

    from loraplex.api.server import serve

    serve(settings, fd)
