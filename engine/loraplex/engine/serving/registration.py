"""The registration thread: announces the worker to the control plane and renews its lease.

The controller may be away at any time and for any time; the worker serves on meanwhile, since
gateways judge it by its heartbeats.
"""

import json
import logging
import random
from collections.abc import Callable, Sequence
from http.client import HTTPException
from threading import Event
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

import msgspec

from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.workers import WantedAdapters, WorkerRegistration

log = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0
RENEWALS_PER_LEASE = 3
FIRST_RETRY_SECONDS = 0.2
LONGEST_RETRY_SECONDS = 5.0
UNREACHABLE = (OSError, HTTPException, msgspec.DecodeError)
"""What calling a controller that is away, starting or broken may raise."""


class Lease(msgspec.Struct, frozen=True):
    """The controller's answer to a registration or a renewal."""

    lease_seconds: float
    wanted: WantedAdapters | None = None
    """What the worker is to have near, where that has changed."""
    gone: tuple[TenantNamespace, ...] = ()
    """Of tenants that were deleted: nothing of theirs is to stay on this machine's disk."""


class Superseded(Exception):
    """A newer incarnation of this worker has registered: this one must end."""


class Controller:
    """The control plane's internal listener, as one worker sees it. Blocking calls."""

    def __init__(self, url: str, token: str, registration: WorkerRegistration) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"the controller's URL must be http or https, not {url!r}")
        self._workers_url = f"{url.rstrip('/')}/internal/workers"
        self._token = token
        self._registration = registration
        self._opener = build_opener(ProxyHandler({}))  # the listener is near: no proxy between

    def register(self) -> Lease:
        return self._lease("POST", "", msgspec.json.encode(self._registration))

    def renew(self, wanted_revision: str | None = None) -> Lease:
        """`wanted_revision` is that of the wanted adapters heard last.

        Raises HTTPError 404 when the lease is gone, and Superseded when another has it."""
        told = {"incarnation": self._registration.incarnation, "wanted_revision": wanted_revision}
        body = json.dumps(told).encode()
        return self._lease("PUT", f"/{self._worker}/lease", body)

    def deregister(self) -> None:
        incarnation = quote(self._registration.incarnation, safe="")
        self._call("DELETE", f"/{self._worker}?incarnation={incarnation}", None)

    @property
    def _worker(self) -> str:
        return quote(self._registration.worker_id, safe="")

    def _lease(self, method: str, path: str, body: bytes) -> Lease:
        try:
            return msgspec.json.decode(self._call(method, path, body), type=Lease)
        except HTTPError as error:
            if error.code == 409:
                error.close()
                raise Superseded(self._registration.incarnation) from error
            raise

    def _call(self, method: str, path: str, body: bytes | None) -> bytes:
        request = Request(  # noqa: S310  the scheme was checked when the URL was given
            self._workers_url + path,
            data=body,
            method=method,
            headers={
                "Authorization": f"Bearer {self._token}",
                "Content-Type": "application/json",
            },
        )
        with self._opener.open(request, timeout=ANSWER_SECONDS) as response:
            answer: bytes = response.read()
            return answer


class Registrar:
    """Keeps one registration alive until told to stop, then takes it back."""

    def __init__(
        self,
        controller: Controller,
        on_wanted: Callable[[WantedAdapters], None] = lambda wanted: None,
        on_gone: Callable[[Sequence[TenantNamespace]], None] = lambda namespaces: None,
    ) -> None:
        """Both are called on the thread that runs this; `on_gone` again and again for the same."""
        self._controller = controller
        self._on_wanted = on_wanted
        self._on_gone = on_gone

    def run(self, stopping: Event) -> None:
        """Raises Superseded when a newer incarnation has taken this worker's place."""
        is_registered = False
        failures = 0
        revision: str | None = None
        while not stopping.is_set():
            try:
                lease = (
                    self._controller.renew(revision)
                    if is_registered
                    else self._controller.register()
                )
            except UNREACHABLE as error:
                if status_of(error) == 404:  # the lease lapsed while the controller was away
                    is_registered = False
                if failures == 0:
                    log.warning("the controller cannot be reached (%s); retrying", error)
                failures += 1
                stopping.wait(_retry_seconds(failures))
                continue
            if failures or not is_registered:
                log.info("registered with the controller")
            is_registered, failures = True, 0
            if lease.wanted is not None:
                revision = lease.wanted.revision
                self._on_wanted(lease.wanted)
            if lease.gone:
                self._on_gone(lease.gone)
            stopping.wait(lease.lease_seconds / RENEWALS_PER_LEASE)
        self._deregister()

    def _deregister(self) -> None:
        try:
            self._controller.deregister()
        except UNREACHABLE as error:
            # The lease lapses by itself.
            log.warning("could not deregister: %s", error)


def status_of(error: Exception) -> int | None:
    """The HTTP status of a refusal, whose connection is closed; None for any other failure."""
    if not isinstance(error, HTTPError):
        return None
    error.close()
    return error.code


def _retry_seconds(failures: int) -> float:
    """Doubling, with jitter so that many workers do not return to a new controller as one."""
    longest = min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(failures, 10))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311
