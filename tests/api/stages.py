"""Workers and gateways that a test starts and ends itself, and one tenant's calls to them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import SecretStr
from sqlalchemy.engine import make_url

from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.serving.server import WorkerServer
from loraplex.platform.metering.models import LedgerEntry
from loraplex.platform.settings import Settings
from tests.api.conftest import CallFactory, Tenant, running_worker
from tests.api.cut import CuttableWay, cuttable_way
from tests.api.raw_calls import ENDLESS, RawCall, ledger, reservations
from tests.api.running import RunningGateway, running_gateway
from tests.engine.worker.echo_engine import EchoEngine


def slow_engine() -> EchoEngine:
    return EchoEngine(step_seconds=0.01)


@dataclass(frozen=True)
class Stage:
    settings: Settings
    table: ModuleTable
    customer: Tenant
    start_call: CallFactory
    engine: EchoEngine = field(default_factory=slow_engine)

    def changed(self, **settings: object) -> "Stage":
        """The same, but for some settings."""
        return replace(self, settings=self.settings.model_copy(update=settings))

    @contextmanager
    def running(self) -> Iterator[tuple[WorkerServer, RunningGateway]]:
        with (
            running_worker(self.settings, self.table, self.engine) as worker,
            running_gateway(self.settings) as gateway,
        ):
            yield worker, gateway

    @contextmanager
    def running_cut_off(self) -> Iterator[tuple[CuttableWay, RunningGateway]]:
        """A worker, and a gateway whose way to Postgres can be cut."""
        assert self.settings.database_url is not None
        url = make_url(self.settings.database_url.get_secret_value())
        assert url.port is not None
        with (
            running_worker(self.settings, self.table, self.engine),
            cuttable_way(url.port) as way,
        ):
            through = url.set(port=way.port).render_as_string(hide_password=False)
            cut_off = self.settings.model_copy(update={"database_url": SecretStr(through)})
            with running_gateway(cut_off) as gateway:
                yield way, gateway

    def call(self, gateway: RunningGateway, **changes: Any) -> RawCall:
        """A completion without an end, but for the changes."""
        return self.start_call(gateway, self.customer.key, ENDLESS | changes)

    def stream(self, gateway: RunningGateway, **changes: Any) -> RawCall:
        """A stream that has begun."""
        streaming = self.call(gateway, stream=True, **changes)
        assert streaming.answer().status == 200
        return streaming

    @property
    def ledger(self) -> list[LedgerEntry]:
        return ledger(self.settings, self.customer)

    @property
    def outcomes(self) -> list[str]:
        return [row.outcome for row in self.ledger]

    @property
    def reservations(self) -> int:
        return reservations(self.settings, self.customer)
