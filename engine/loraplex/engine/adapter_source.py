"""What the engine needs of whoever keeps adapters: a local file, by reference."""

from pathlib import Path
from typing import Protocol

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.messages import TierLoad


class AdapterSource(Protocol):
    """Called on loader threads, where it may block."""

    def fetch(self, ref: AdapterRef) -> Path:
        """A local copy of the adapter's safetensors file. Raises AdapterUnavailable.

        Its bytes are not verified: the engine hashes them while it reads them, so that every read
        is checked and none is made for the check alone.
        """
        ...

    def distrust(self, ref: AdapterRef) -> None:
        """The file that was fetched last had other bytes than its digest says: get it anew."""
        return

    def tiers(self) -> tuple[TierLoad, ...]:
        """How the tiers below the engine have been doing, for operators."""
        return ()
