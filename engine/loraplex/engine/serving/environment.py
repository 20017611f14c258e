"""What a worker process is told by its environment: the only way anything reaches it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import msgspec

from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.protocol.workers import Role


class MissingSetting(Exception):
    """An environment variable that a worker cannot do without is not set."""


@dataclass(frozen=True)
class WorkerEnvironment:
    """The launcher's settings for one worker. It holds no database or store credentials."""

    config: EngineConfig
    worker_id: str
    pool: str
    role: Role
    host: str
    controller_url: str
    token: str = field(repr=False)
    gateway_public_key: str

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """Raises MissingSetting, or msgspec.ValidationError for a malformed config."""

        def required(name: str) -> str:
            try:
                return environment[name]
            except KeyError:
                raise MissingSetting(f"{name} is not set; the launcher sets it") from None

        return cls(
            config=msgspec.json.decode(required("LORAPLEX_WORKER_CONFIG"), type=EngineConfig),
            worker_id=required("LORAPLEX_WORKER_ID"),
            pool=environment.get("LORAPLEX_WORKER_POOL", "default"),
            role=Role(environment.get("LORAPLEX_WORKER_ROLE", Role.UNIFIED)),
            host=environment.get("LORAPLEX_WORKER_HOST", "127.0.0.1"),
            controller_url=required("LORAPLEX_CONTROLLER_URL"),
            token=required("LORAPLEX_WORKER_TOKEN"),
            gateway_public_key=required("LORAPLEX_GATEWAY_CURVE_PUBLIC_KEY"),
        )
