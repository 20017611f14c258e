"""`loraplex gateway`: one gateway process on a socket of its own or an inherited one."""

import os
from typing import Annotated

import typer


def gateway(
    fd: Annotated[
        int | None,
        typer.Option(help="A listening socket to inherit, shared with other gateways."),
    ] = None,
) -> None:
    """Serve the HTTP API and the web app."""
    from loraplex.platform.logs import configure_logging
    from loraplex.platform.settings import Settings

    settings = Settings()
    configure_logging()
    metrics_dir = settings.run_dir / "metrics"
    metrics_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    # prometheus_client chooses shared or private values once, when it is imported.
    os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", str(metrics_dir))

    from loraplex.api.server import serve

    serve(settings, fd)
