"""How a local worker process is started: its command line and its whole environment."""

import os
import re
import socket
import sys

import msgspec

from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.protocol.workers import Role
from loraplex.platform.pools.worker_token import worker_token
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings

POOL = "default"
WORKER_HOST = "127.0.0.1"
PASSED_ON = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "CXX",  # what compiles the CPU kernels, and where the result is kept
    "XDG_CACHE_HOME",
)
PASSED_ON_PREFIXES = ("OMP_", "CUDA_", "TRITON_", "OTEL_")
"""All that a worker inherits. It parses what tenants upload, so it holds no credentials of the
database or the store, whatever the launcher's own environment has."""


class MissingInternalUrl(Exception):
    """A worker cannot be launched before the controller's address is known."""


def worker_command(
    settings: Settings, index: int, config: EngineConfig, secrets: SecretKeys
) -> tuple[list[str], dict[str, str]]:
    """The command line and the whole environment of worker number `index`."""
    if settings.internal_url is None:
        raise MissingInternalUrl("LORAPLEX_INTERNAL_URL is not set")
    inherited = {name: value for name, value in os.environ.items() if is_passed_on(name)}
    if config.threads is None and "OMP_NUM_THREADS" not in inherited:
        threads = max(1, available_cores() // settings.workers)
        config = msgspec.structs.replace(config, threads=threads)
    environment = inherited | {
        "PYTHONUNBUFFERED": "1",
        "LORAPLEX_LOG_FORMAT": settings.log_format,
        "LORAPLEX_LOG_LEVEL": settings.log_level,
        "LORAPLEX_WORKER_CONFIG": msgspec.json.encode(config).decode(),
        "LORAPLEX_WORKER_ID": worker_id(index),
        "LORAPLEX_WORKER_POOL": POOL,
        "LORAPLEX_WORKER_ROLE": Role.UNIFIED.value,
        "LORAPLEX_WORKER_HOST": WORKER_HOST,
        "LORAPLEX_CONTROLLER_URL": settings.internal_url,
        "LORAPLEX_WORKER_TOKEN": worker_token(secrets),
        "LORAPLEX_GATEWAY_CURVE_PUBLIC_KEY": secrets.gateway_curve().public.decode(),
    }
    return [sys.executable, "-m", "loraplex.engine.worker"], environment


def worker_id(index: int) -> str:
    """The same across restarts, and different on machines that share one database."""
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname()) or "local"
    return f"{host}-worker-{index}"


def is_passed_on(name: str) -> bool:
    return name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)


def available_cores() -> int:
    """Cores this process may use, which a container's own count may be below."""
    return len(os.sched_getaffinity(0))
