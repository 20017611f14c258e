"""The worker process: one engine, one base model, one replica.

Everything it needs comes by the environment (`serving.environment`); it ends when told by SIGTERM,
with status 0, or when one of its threads fails, with status 1, and whoever launched it starts it
anew as another incarnation.
"""

import logging
import os
import signal
from importlib.metadata import entry_points
from pathlib import Path
from typing import NoReturn

from loraplex.engine.adapter_source import AdapterSource
from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.protocol.describe import load_or_describe
from loraplex.engine.protocol.tracing import NO_TRACING, Tracing, start_tracing
from loraplex.engine.serving.environment import WorkerEnvironment
from loraplex.engine.serving.identity import WorkerIdentity
from loraplex.engine.serving.logs import configure_worker_logging
from loraplex.engine.serving.registration import Controller
from loraplex.engine.serving.server import WorkerServer

log = logging.getLogger(__name__)

ADAPTER_SOURCES = "loraplex.adapter_sources"


def main() -> NoReturn:
    """Run a worker until SIGTERM or SIGINT, then end the process."""
    configure_worker_logging(os.environ)
    environment = WorkerEnvironment.read(os.environ)
    tracing = start_tracing("worker", os.environ)
    server = load_server(environment, tracing)
    # Only now: while the model loads, the signals' default action ends the process at once.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.ended.put(None))
    controller = Controller(environment.controller_url, environment.token, server.registration)
    server.start().announce(controller)
    failure = server.ended.get()
    server.stop()
    tracing.close()
    logging.shutdown()
    # A step or a download may still be running on some thread; nothing of it is worth waiting for.
    os._exit(0 if failure is None else 1)


def load_server(environment: WorkerEnvironment, tracing: Tracing = NO_TRACING) -> WorkerServer:
    """Load the model and bind the sockets; takes seconds."""
    from loraplex.engine.core import EngineCore

    config = environment.config
    set_threads(config)
    cache_dir = Path(config.adapter_cache_dir)
    table = load_or_describe(Path(config.model_dir), config.base_name, cache_dir)
    source = load_adapter_source(config)
    engine = EngineCore(config, table, source)
    identity = WorkerIdentity(
        worker_id=environment.worker_id,
        pool=environment.pool,
        role=environment.role,
        base_name=table.base_name,
        base_digest=table.base_digest,
    )
    log.info("worker %s serves %s", identity.worker_id, table.base_name)
    return WorkerServer(
        engine,
        identity,
        gateway_public_key=environment.gateway_public_key,
        host=environment.host,
        tracing=tracing,
        forget=source.forget,
    )


def set_threads(config: EngineConfig) -> None:
    """Give torch the threads the launcher has chosen; without a choice OMP_NUM_THREADS counts."""
    import torch

    if config.threads is not None:
        torch.set_num_threads(config.threads)


def load_adapter_source(config: EngineConfig) -> AdapterSource:
    """The installed adapter source: the engine names what it needs and imports no other part."""
    (plugin,) = entry_points(group=ADAPTER_SOURCES, name="default")
    source: AdapterSource = plugin.load()(
        cache_dir=Path(config.adapter_cache_dir), budget_bytes=config.adapter_cache_bytes
    )
    return source


if __name__ == "__main__":
    main()
