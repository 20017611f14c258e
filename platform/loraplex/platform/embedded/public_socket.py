"""The public address: bound first, so that a busy port is found before anything is started."""

import contextlib
import errno
import socket

import psutil

from loraplex.platform.embedded.errors import PortBusy


def bind_public(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet; gateways inherit it by its file descriptor.

    While it lives here, a gateway that dies leaves the queue of new connections in place.
    Raises PortBusy, naming who listens where that can be seen.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    public = socket.socket(family, kind, protocol)
    public.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        public.bind(address)
    except OSError as error:
        public.close()
        if error.errno == errno.EADDRINUSE:
            raise PortBusy(
                f"Port {port} on {host} is in use{_by_whom(port)}. Stop that program, or choose "
                "another port with --port or LORAPLEX_PORT.",
                field="port",
                value=port,
            ) from error
        raise PortBusy(
            f"Cannot listen on {host} port {port}: {error.strerror}. Choose another address with "
            "LORAPLEX_HOST and --port or LORAPLEX_PORT.",
            field="port",
            value=port,
        ) from error
    return public


def _by_whom(port: int) -> str:
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            is_listener = connection.status == psutil.CONN_LISTEN
            if is_listener and connection.laddr.port == port and connection.pid:
                name = psutil.Process(connection.pid).name()
                return f" by process {connection.pid} ({name})"
    return ""
