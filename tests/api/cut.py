"""A way to a TCP server that a test can cut, and mend."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

CHUNK_BYTES = 65536


class CuttableWay:
    """Forwards connections; while it is cut, those that exist are closed and new ones too."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._is_cut = False
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            for one in self._open:
                # Not close: another thread waits in recv, and would not learn of it.
                one.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        with self._lock:
            self._is_cut = False

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._is_cut:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._target))
                self._open |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(CHUNK_BYTES):
                sink.sendall(data)
        except OSError:
            pass
        with self._lock:
            for one in (source, sink):
                if one in self._open:
                    self._open.discard(one)
                    one.close()


@contextmanager
def cuttable_way(port: int) -> Iterator[CuttableWay]:
    way = CuttableWay(port)
    try:
        yield way
    finally:
        way.close()
