"""Adapters that only an object store has, and the store: for benchmarks of how they come here."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from loraplex.engine.benchmarks import slow_store
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.identity import TenantNamespace, digest_of_bytes

_STORE: Final = Path(slow_store.__file__)


@contextmanager
def object_store(folder: Path, bytes_per_s: float) -> Iterator[str]:
    """The base URL of a store of a folder's files, in a process of its own; makes the folder."""
    folder.mkdir()
    command = [sys.executable, str(_STORE), str(folder), str(bytes_per_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def stored_adapters(
    folder: Path,
    url: str,
    one: AdapterRef,
    count: int,
    namespaces: Sequence[TenantNamespace] | None = None,
) -> list[AdapterRef]:
    """So many adapters of other bytes than one another's, in the store's folder.

    They are the namespaces' in turn; without any, the one's.
    """
    data = bytearray(Path(one.url).read_bytes())
    made = []
    for number in range(count):
        data[-4:] = np.float32(number / 1000).tobytes()
        digest = digest_of_bytes(bytes(data))
        (folder / digest).write_bytes(data)
        spec = msgspec.structs.replace(one.spec, digest=digest, weights_digest=digest)
        namespace = namespaces[number % len(namespaces)] if namespaces else one.namespace
        made.append(AdapterRef(spec, namespace, f"{url}/{digest}"))
    return made
