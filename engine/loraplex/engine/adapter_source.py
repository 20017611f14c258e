"""What the engine needs of whoever keeps adapters: a local file, by reference."""

from pathlib import Path
from typing import Protocol

from loraplex.engine.protocol.adapter import AdapterRef


class AdapterSource(Protocol):
    def fetch(self, ref: AdapterRef) -> Path:
        """A verified local copy of the adapter's safetensors file.

        Called on a loader thread, where it may block. Raises AdapterUnavailable.
        """
        ...
