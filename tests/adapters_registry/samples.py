"""Small bases and adapters, made by the libraries their owners would use."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from loraplex.engine.protocol.identity import digest_of_bytes
from loraplex.engine.protocol.module_table import LinearModule, ModuleTable

FIXTURES = Path(__file__).parents[1] / "fixtures" / "adapters"
FIXTURE_NAMES = ("bullets", "json", "pirate", "shout")

LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def llama_table(
    name: str, *, layers: int, hidden: int, key_value: int, intermediate: int
) -> ModuleTable:
    """The linears of a Llama of these sizes."""
    shapes = {
        "self_attn.q_proj": (hidden, hidden),
        "self_attn.k_proj": (hidden, key_value),
        "self_attn.v_proj": (hidden, key_value),
        "self_attn.o_proj": (hidden, hidden),
        "mlp.gate_proj": (hidden, intermediate),
        "mlp.up_proj": (hidden, intermediate),
        "mlp.down_proj": (intermediate, hidden),
    }
    modules = tuple(
        LinearModule(
            path=f"model.layers.{layer}.{place}",
            layer=layer,
            linear=place.split(".")[1],
            in_features=inputs,
            out_features=outputs,
        )
        for layer in range(layers)
        for place, (inputs, outputs) in shapes.items()
    )
    return ModuleTable(
        base_name=name,
        base_digest=digest_of_bytes(name.encode()),
        architecture="LlamaForCausalLM",
        layers=layers,
        hidden_size=hidden,
        vocabulary_size=64,
        max_model_tokens=128,
        eos_token_ids=(2,),
        modules=modules,
    )


SMOLLM2 = llama_table(
    "smollm2-135m-instruct", layers=30, hidden=576, key_value=192, intermediate=1536
)
TINY = llama_table("tiny-llama", layers=2, hidden=32, key_value=16, intermediate=48)


@dataclass
class Sample:
    """A good adapter of TINY, to be spoiled: q_proj and v_proj of both layers at rank 4."""

    config: dict[str, object] = field(default_factory=dict)
    tensors: dict[str, NDArray[np.generic]] = field(default_factory=dict)

    def config_bytes(self) -> bytes:
        return json.dumps(self.config).encode()

    def write(self, folder: Path) -> tuple[bytes, Path]:
        """The two files, as `spec_from_files` takes them."""
        weights = folder / "adapter_model.safetensors"
        save_file(self.tensors, weights)
        (folder / "adapter_config.json").write_bytes(self.config_bytes())
        return self.config_bytes(), weights


def sample(
    *, rank: int = 4, seed: int = 0, linears: tuple[str, ...] = ("q_proj", "v_proj")
) -> Sample:
    random = np.random.default_rng(seed)
    tensors: dict[str, NDArray[np.generic]] = {}
    for module in TINY.modules:
        if module.linear in linears:
            a = random.standard_normal((rank, module.in_features), dtype=np.float32)
            b = random.standard_normal((module.out_features, rank), dtype=np.float32)
            tensors[key(module.path, "A")] = a
            tensors[key(module.path, "B")] = b
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": rank,
        "lora_alpha": 8,
        "target_modules": list(linears),
    }
    return Sample(dict(config), tensors)


def key(path: str, side: str) -> str:
    return f"base_model.model.{path}.lora_{side}.weight"
