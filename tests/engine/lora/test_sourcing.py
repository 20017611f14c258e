"""A wrong file is put aside and had again, once; a right one is fetched when it is wanted."""

from pathlib import Path

import pytest
import torch

from loraplex.engine.adapter_source import AdapterSource
from loraplex.engine.lora.packing import AdapterFile
from loraplex.engine.lora.sourcing import SourcedAdapter
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import AdapterUnavailable
from loraplex.engine.protocol.identity import TenantNamespace
from tests.engine.lora.files import PAGE_ELEMENTS, PATHS, adapter_file, random_tensors


class Script(AdapterSource):
    """Answers each fetch with the next path."""

    def __init__(self, *paths: Path) -> None:
        self.paths = list(paths)
        self.distrusted = 0

    def fetch(self, ref: AdapterRef) -> Path:
        return self.paths.pop(0)

    def distrust(self, ref: AdapterRef) -> None:
        self.distrusted += 1


def sourced(file: AdapterFile, source: AdapterSource) -> SourcedAdapter:
    ref = AdapterRef(spec=file.spec, namespace=TenantNamespace("tests"), url="")
    return SourcedAdapter(source, ref, file.layout)


def places(file: AdapterFile) -> list[torch.Tensor]:
    return list(torch.zeros(file.layout.pages, PAGE_ELEMENTS))


def flipped(file: AdapterFile, place: int) -> Path:
    data = bytearray(file.path.read_bytes())
    data[place] ^= 4
    wrong = file.path.with_suffix(f".{place}")
    wrong.write_bytes(data)
    return wrong


@pytest.mark.parametrize("place", [0, 100, -1])
def test_a_flipped_bit_anywhere_is_found_and_the_file_had_again(place: int) -> None:
    with adapter_file(random_tensors(dict.fromkeys(PATHS, 5), torch.float32)) as file:
        source = Script(flipped(file, place), file.path)
        found, wanted = places(file), places(file)
        sourced(file, source).pack(found)
        file.pack(wanted)
    assert source.distrusted == 1
    assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


def test_a_file_that_is_wrong_twice_fails_the_load() -> None:
    with adapter_file(random_tensors(dict.fromkeys(PATHS, 5), torch.float32)) as file:
        source = Script(flipped(file, 50), flipped(file, 60), file.path)
        with pytest.raises(AdapterUnavailable, match="other bytes"):
            sourced(file, source).pack(places(file))


def test_a_file_evicted_before_it_was_opened_is_fetched_again() -> None:
    with adapter_file(random_tensors(dict.fromkeys(PATHS, 5), torch.float32)) as file:
        source = Script(file.path.with_suffix(".gone"), file.path)
        sourced(file, source).pack(places(file))
    assert source.distrusted == 0
