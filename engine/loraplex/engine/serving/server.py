"""A worker around an engine: starts the threads, watches them, and ends them in order."""

import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from queue import SimpleQueue
from threading import Event, Thread
from typing import Self

import zmq

from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.messages import PROTOCOL_VERSION
from loraplex.engine.protocol.tracing import NO_TRACING, Tracing
from loraplex.engine.protocol.workers import WantedAdapters, WorkerRegistration
from loraplex.engine.serving.authentication import only_gateways
from loraplex.engine.serving.commands import EndAll, Expect, Inbox, Pin
from loraplex.engine.serving.engine_loop import EngineLoop
from loraplex.engine.serving.heartbeat import Heartbeats
from loraplex.engine.serving.identity import WorkerIdentity
from loraplex.engine.serving.interface import Engine
from loraplex.engine.serving.progress import Progress
from loraplex.engine.serving.registration import Controller, Registrar
from loraplex.engine.serving.transport import GATEWAY_SILENCE_SECONDS, Outlet, Transport

log = logging.getLogger(__name__)

DRAIN_SECONDS = 2.0
"""How long running requests may go on after SIGTERM."""

JOIN_SECONDS = 2.0
WATCH_SECONDS = 0.02


class WorkerServer:
    """Serves one engine to gateways until stopped.

    The sockets are bound once constructed. When any thread ends by an exception,
    its error is put into `ended`: whoever runs the server should then stop it and end the process.
    """

    def __init__(
        self,
        engine: Engine,
        identity: WorkerIdentity,
        *,
        gateway_public_key: str,
        host: str = "127.0.0.1",
        gateway_silence_seconds: float = GATEWAY_SILENCE_SECONDS,
        tracing: Tracing = NO_TRACING,
        forget: Callable[[Sequence[TenantNamespace]], None] = lambda namespaces: None,
    ) -> None:
        """`forget` removes from this machine's disk what deleted tenants had there."""
        self.ended: SimpleQueue[BaseException | None] = SimpleQueue()
        self._is_broken = Event()
        self._identity = identity
        self._engine = engine
        self._tracing = tracing
        self._forget = forget
        self._stopping = Event()
        self._deregistering = Event()
        self._threads: dict[str, Thread] = {}
        self._resources = ExitStack()
        limits = engine.limits()
        self._progress = Progress(engine.load())
        self._inbox = Inbox(engine.wake)
        self._context = self._resources.enter_context(zmq.Context())
        self._resources.enter_context(only_gateways(self._context, gateway_public_key))
        self._transport = Transport(
            self._context,
            identity,
            limits,
            self._inbox,
            host=host,
            gateway_silence_seconds=gateway_silence_seconds,
        )
        self._heartbeats = Heartbeats(
            self._context,
            identity,
            self._progress,
            host=host,
            is_accepting=lambda: self._transport.is_accepting,
            adapters_in_use=engine.adapters_in_use,
        )
        self.registration = WorkerRegistration(
            worker_id=identity.worker_id,
            incarnation=identity.incarnation,
            protocol_version=PROTOCOL_VERSION,
            pool=identity.pool,
            role=identity.role,
            base_name=identity.base_name,
            base_digest=identity.base_digest,
            requests_endpoint=self._transport.endpoint,
            events_endpoint=self._heartbeats.endpoint,
            curve_public_key=identity.curve.public.decode(),
            process_id=os.getpid(),
            limits=limits,
        )

    def start(self) -> Self:
        """Start serving; once."""
        assert not self._threads, "two threads on one socket would crash libzmq"
        self._start("transport", lambda: self._transport.run(self._stopping))
        self._start("engine", self._run_engine)
        self._start("heartbeat", lambda: self._heartbeats.run(self._stopping))
        return self

    def announce(self, controller: Controller) -> None:
        """Register with the controller, and stay registered until stopped; once."""
        assert "registration" not in self._threads, "the worker is being announced already"
        registrar = Registrar(controller, self._want, self._forget)
        self._start("registration", lambda: registrar.run(self._deregistering))

    def _want(self, wanted: WantedAdapters) -> None:
        self._inbox.put(Pin(wanted.pinned))
        self._inbox.put(Expect([*wanted.pinned, *wanted.expected]))

    def stop(self, drain_seconds: float = DRAIN_SECONDS) -> bool:
        """Refuse new requests, give running ones a moment, end them, and close; idempotent.

        Returns whether every thread has ended: one that is deep in a step may not, and then only
        the end of the process ends it.
        """
        self._transport.is_accepting = False
        self._heartbeats.beat_now()
        self._deregistering.set()
        if not self._wait_until_idle(drain_seconds):
            self._inbox.put(EndAll())
            self._wait_until_idle(JOIN_SECONDS)
        self._stopping.set()
        self._engine.wake()
        self._heartbeats.beat_now()
        for thread in self._threads.values():
            thread.join(JOIN_SECONDS)
        if any(thread.is_alive() for thread in self._threads.values()):
            return False
        self._resources.close()
        return True

    def _wait_until_idle(self, timeout_seconds: float) -> bool:
        deadline = time.monotonic() + timeout_seconds
        while not (self._inbox.is_empty and self._progress.is_idle):
            if time.monotonic() > deadline or self._is_broken.wait(WATCH_SECONDS):
                return False
        return True

    def _run_engine(self) -> None:
        outlet = Outlet(self._context, self._transport.outlet_address)
        try:
            loop = EngineLoop(
                self._engine,
                self._inbox,
                self._progress,
                outlet.send,
                self._identity.incarnation,
                self._tracing,
            )
            while not self._stopping.is_set():
                loop.run_once()
        finally:
            outlet.close()

    def _start(self, name: str, run: Callable[[], None]) -> None:
        # Daemons, so that a step which takes too long cannot keep a finished process alive.
        thread = Thread(target=self._guard, args=(name, run), name=name, daemon=True)
        self._threads[name] = thread
        thread.start()

    def _guard(self, name: str, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:
            log.critical("the %s thread failed", name, exc_info=error)
            self._is_broken.set()
            self.ended.put(error)
