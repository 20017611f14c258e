"""A spec counts what the file holds, at true ranks."""

import json
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given

from loraplex.engine.protocol.adapter import AdapterModule, AdapterSpec, TensorRef
from loraplex.engine.protocol.identity import Digest, digest_of_file
from tests.engine.protocol.strategies import SPECS

FIXTURES = Path(__file__).parents[2] / "fixtures" / "adapters"


def spec_of(path: Path) -> AdapterSpec:
    """A spec read the plain way: every lora_A with its lora_B."""
    with path.open("rb") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(start - 8))
    tensors = {
        name: TensorRef(
            name=name,
            dtype=entry["dtype"],
            shape=(entry["shape"][0], entry["shape"][1]),
            start=start + entry["data_offsets"][0],
            end=start + entry["data_offsets"][1],
        )
        for name, entry in header.items()
        if name != "__metadata__"
    }
    modules = []
    for name, a in tensors.items():
        found = re.fullmatch(
            r"base_model\.model\.(.*layers\.(\d+)\..*?(\w+))\.lora_A\.weight", name
        )
        if found is not None:
            b = tensors[name.replace("lora_A", "lora_B")]
            path_, layer, linear = found[1], int(found[2]), found[3]
            modules.append(AdapterModule(path_, layer, linear, a.shape[0], 1.0, a, b))
    digest = Digest("sha256:" + "0" * 64)
    return AdapterSpec(digest, digest, digest_of_file(path), path.stat().st_size, tuple(modules))


@pytest.mark.parametrize(
    ("name", "max_rank", "modules"),
    [("pirate", 8, 210), ("json", 16, 120), ("shout", 4, 90), ("bullets", 12, 210)],
)
def test_parameters_and_ranks_are_those_of_real_adapters(
    name: str, max_rank: int, modules: int
) -> None:
    path = FIXTURES / name / "adapter_model.safetensors"

    spec = spec_of(path)

    item_bytes = {"F32": 4, "F16": 2, "BF16": 2}[spec.modules[0].a.dtype]
    tensor_bytes = sum(ref.end - ref.start for m in spec.modules for ref in (m.a, m.b))
    assert spec.parameters * item_bytes == tensor_bytes
    assert (spec.max_rank, len(spec.modules)) == (max_rank, modules)


@given(SPECS)
def test_a_spec_survives_the_registrys_json(spec: AdapterSpec) -> None:
    kept = msgspec.json.decode(msgspec.json.encode(spec), type=AdapterSpec)

    assert kept == spec
    assert (kept.parameters, kept.max_rank) == (spec.parameters, spec.max_rank)
