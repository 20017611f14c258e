"""A wrong upload answers in words a person can act on."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.e2e.conftest import ADAPTERS, Platform

pytestmark = pytest.mark.e2e

Breakage = Callable[[Path], None]


def edit_config(folder: Path, **changes: object) -> None:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def wrong_base_shape(folder: Path) -> None:
    tensors = load_file(folder / "adapter_model.safetensors")
    name = next(name for name in tensors if "lora_A" in name)
    tensors[name] = np.zeros((tensors[name].shape[0], 1024), dtype=tensors[name].dtype)
    save_file(tensors, folder / "adapter_model.safetensors")


def missing_lora_b(folder: Path) -> None:
    tensors = load_file(folder / "adapter_model.safetensors")
    del tensors[next(name for name in tensors if "lora_B" in name)]
    save_file(tensors, folder / "adapter_model.safetensors")


def not_a_number(folder: Path) -> None:
    tensors = load_file(folder / "adapter_model.safetensors")
    next(iter(tensors.values()))[0, 0] = np.nan
    save_file(tensors, folder / "adapter_model.safetensors")


def pickle_file(folder: Path) -> None:
    (folder / "adapter_model.safetensors").write_bytes(b"PK\x03\x04" + b"archive/data.pkl" * 50)


def endless_header(folder: Path) -> None:
    file = folder / "adapter_model.safetensors"
    file.write_bytes(struct.pack("<Q", 1024**3) + file.read_bytes()[8:])


def config_is_a_list(folder: Path) -> None:
    (folder / "adapter_config.json").write_text("[]")


BROKEN: dict[str, tuple[Breakage, list[str]]] = {
    "wrong base shape": (wrong_base_shape, ["1024", "576"]),
    "missing lora_B": (missing_lora_b, ["lora_B"]),
    "pickle file": (pickle_file, ["pickle", "safetensors"]),
    "NaN weights": (not_a_number, ["NaN"]),
    "unknown field": (lambda folder: edit_config(folder, quantum_rank=7), ["quantum_rank"]),
    "DoRA": (lambda folder: edit_config(folder, use_dora=True), ["use_dora"]),
    "r = 0": (lambda folder: edit_config(folder, r=0), ["r", "0"]),
    "1 GB header": (endless_header, ["header", "1073741824"]),
    "config is a list": (config_is_a_list, ["adapter_config.json", "list"]),
}


@pytest.mark.parametrize("flaw", BROKEN, ids=str)
def test_a_broken_adapter_is_rejected_by_name(
    platform: Platform, tmp_path: Path, flaw: str
) -> None:
    for file in (ADAPTERS / "shout").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    breakage, words = BROKEN[flaw]
    breakage(tmp_path)
    name = "broken-" + flaw.lower().replace(" ", "-").replace("=", "is").replace("_", "-")
    version = platform.upload(platform.key("acme"), name, tmp_path)
    assert version["status"] == "rejected"
    told = json.dumps(version["reasons"])
    assert all(word in told for word in words), told
    with platform.client(platform.key("acme")) as client:
        answer = client.post(
            "/v1/completions", json={"model": name, "prompt": "x", "max_tokens": 1}
        )
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "model_not_found"
        assert not [m for m in client.get("/v1/models").json()["data"] if name in m["id"]]


def test_fields_that_are_null_false_or_empty_are_harmless(
    platform: Platform, tmp_path: Path
) -> None:
    for file in (ADAPTERS / "shout").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    edit_config(tmp_path, from_the_future=None, another=False, third=[], fourth={}, fifth="")
    version = platform.upload(platform.key("acme"), "harmless", tmp_path)
    assert version["status"] == "ready", version


def test_identical_bytes_answer_with_the_version_that_exists(platform: Platform) -> None:
    first = platform.upload(platform.key("globex"), "twice", ADAPTERS / "shout")
    with platform.client(platform.key("globex")) as client:
        again = client.post(
            "/api/v1/adapters/twice/versions",
            files={
                "adapter_config": (ADAPTERS / "shout" / "adapter_config.json").read_bytes(),
                "adapter_model": (ADAPTERS / "shout" / "adapter_model.safetensors").read_bytes(),
            },
        )
    assert again.status_code == 200
    assert again.json()["version"] == first["version"]
