"""An adapter by reference: fetched when it is packed, and once more where its bytes are wrong."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from loraplex.engine.adapter_source import AdapterBytes, AdapterSource
from loraplex.engine.lora.gains import BaseLinears
from loraplex.engine.lora.layout import AdapterLayout
from loraplex.engine.lora.packing import AdapterFile, pack_from
from loraplex.engine.lora.reading import WrongBytes
from loraplex.engine.protocol.adapter import AdapterRef

log = logging.getLogger(__name__)


@dataclass
class SourcedAdapter:
    """What is packed already needs no file, so none is fetched before it is asked for.

    One thread at a time.
    """

    source: AdapterSource
    ref: AdapterRef
    layout: AdapterLayout
    base: BaseLinears | None = None
    _fetched: Path | None = None

    def fetch(self) -> None:
        """Have the file ready for `pack`; blocks. Raises AdapterUnavailable."""
        self._fetched = self.source.fetch(self.ref)

    def coming(self, file: AdapterBytes) -> "ComingAdapter":
        """The same, packed from a file while that comes."""
        return ComingAdapter(self, file)

    def pack(self, places: Sequence[Tensor], first_page: int = 0) -> None:
        """Fill `places`, the adapter's pages from `first_page` on; blocks while it is fetched.

        Raises AdapterUnavailable.
        """
        try:
            self._pack(places, first_page)
        except WrongBytes:
            log.warning("the file of adapter %s is corrupt", self.ref.spec.digest)
            self.source.distrust(self.ref)
            self._pack(places, first_page)
        except FileNotFoundError:  # evicted between the two
            self._pack(places, first_page)

    def _pack(self, places: Sequence[Tensor], first_page: int) -> None:
        path, self._fetched = self._fetched or self.source.fetch(self.ref), None
        AdapterFile(self.ref.spec, self.layout, path, self.base).pack(places, first_page)


@dataclass(frozen=True)
class ComingAdapter:
    """Packed as its bytes arrive. What goes wrong is for the caller to try again another way."""

    adapter: SourcedAdapter
    file: AdapterBytes

    def pack(self, places: Sequence[Tensor], first_page: int = 0) -> None:
        """As SourcedAdapter's, but raises WrongBytes or TransferBroke and fetches nothing."""
        one = self.adapter
        pack_from(self.file, one.ref.spec, one.layout, places, first_page, one.base)
