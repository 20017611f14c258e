"""Who may speak to a worker: whoever holds the gateways' key, nobody else."""

import hmac
from collections.abc import Iterator
from contextlib import contextmanager

import zmq
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils import z85

from loraplex.engine.serving.identity import CurvePair

ZAP_DOMAIN = "worker"


class OneKey:
    """Lets a peer in if its CURVE public key is the one given (Z85)."""

    def __init__(self, public_key: bytes) -> None:
        self._public_key = public_key

    def callback(self, domain: str, key: bytes) -> bool:
        return hmac.compare_digest(key, self._public_key)


@contextmanager
def only_gateways(
    context: zmq.Context[zmq.Socket[bytes]], gateway_public_key: str
) -> Iterator[None]:
    """While open, CURVE connections to the context's sockets need the gateways' key (Z85).

    Must be open before the sockets bind: without an authenticator libzmq lets any key in.
    """
    public_key = gateway_public_key.encode()
    z85.decode(public_key)  # a malformed key fails here, not at the first connection
    authenticator = ThreadAuthenticator(context)
    authenticator.start()
    authenticator.configure_curve_callback(ZAP_DOMAIN, OneKey(public_key))
    try:
        yield
    finally:
        authenticator.stop()


def protect(socket: zmq.Socket[bytes], curve: CurvePair) -> None:
    """Make a socket the server side of CURVE; before it binds."""
    socket.curve_publickey = curve.public
    socket.curve_secretkey = curve.secret
    socket.curve_server = True
    socket.setsockopt_string(zmq.ZAP_DOMAIN, ZAP_DOMAIN)
