"""Connects to addresses that were checked, and to no others.

A name is resolved once, right here, all its addresses are judged, and the connection goes to one
of those very addresses: a resolver that answers differently a moment later changes nothing. Host
header and SNI stay what the URL says.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpcore
import httpx

from loraplex.platform.outbound.addresses import Address, PrivateHosts, literal_address
from loraplex.platform.outbound.errors import AddressNotPublic, HostUnknown

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]
MAX_TRIED_ADDRESSES = 4


async def resolve_host(host: str, port: int) -> list[Address]:
    """A name's addresses, as the machine's own resolver knows them. Raises HostUnknown."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise HostUnknown(host) from None
    # A zone (fe80::1%eth0) belongs to link-local addresses, which are refused anyway.
    return [ip_address(str(info[4][0]).partition("%")[0]) for info in found]


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """The place where httpcore opens connections, and the only one where names are resolved."""

    def __init__(self, private_hosts: PrivateHosts, resolve: Resolve = resolve_host) -> None:
        self._private_hosts = private_hosts
        self._resolve = resolve
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Raises HostUnknown, AddressNotPublic, and what httpcore raises."""
        addresses = await self.addresses(host, port)
        last_error: Exception | None = None
        for address in addresses[:MAX_TRIED_ADDRESSES]:
            try:
                return await self._backend.connect_tcp(
                    str(address), port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                last_error = error
        assert last_error is not None, "a host without addresses is unknown"
        raise last_error

    async def addresses(self, host: str, port: int) -> Sequence[Address]:
        literal = literal_address(host)
        addresses = [literal] if literal is not None else await self._resolve(host, port)
        if not addresses:
            raise HostUnknown(host)
        if not self._private_hosts.allow_all(host, addresses):
            raise AddressNotPublic(host)
        return addresses

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        raise AssertionError("no URL leads to a Unix socket")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class CheckedTransport(httpx.AsyncHTTPTransport):
    """httpx's transport over connections that were checked. It obeys no environment variable."""

    def __init__(self, backend: CheckedBackend, ca_file: Path | None = None) -> None:
        context = httpx.create_ssl_context(trust_env=False)
        if ca_file is not None:
            context.load_verify_locations(ca_file)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        super().__init__(verify=context, trust_env=False)
        # httpx has no parameter for the backend; its pool is httpcore's, which has.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=100,
            max_keepalive_connections=20,
            keepalive_expiry=5.0,
            network_backend=backend,
        )
