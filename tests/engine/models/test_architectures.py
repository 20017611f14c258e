"""Every architecture and rope kind answers what Transformers answers."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from loraplex.engine.models.registry import ARCHITECTURES, read_decoder_config
from loraplex.engine.protocol.errors import UnsupportedModel
from loraplex.engine.protocol.model_config import SERVED_ARCHITECTURES
from loraplex.engine.protocol.sampling import SamplingParams
from tests.engine.driving import Answer, request, run
from tests.engine.tiny import VOCABULARY, describe, make_engine, make_model, oracle, oracle_logits

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 32,
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama with tied embeddings": ("llama", {"tie_word_embeddings": True}),
    "llama with biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama with a head size of its own": ("llama", {"head_dim": 16}),
    "llama with one key-value head": ("llama", {"num_key_value_heads": 1}),
    "llama in shards": ("llama", {"shard_bytes": 4000}),
    "rope theta": ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}),
    "rope linear": (
        "llama",
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0}},
    ),
    "rope dynamic within its length": (
        "llama",
        {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}},
    ),
    "rope dynamic beyond its length": (
        "llama",
        {
            "rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0},
            "max_position_embeddings": 32,
        },
    ),
    "rope dynamic that grows beyond its length": (
        "llama",
        {
            "rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0},
            "max_position_embeddings": 45,
        },
    ),
    "rope llama3": ("llama", {"rope_parameters": LLAMA3}),
    "rope yarn": ("llama", {"rope_parameters": YARN}),
    "rope yarn with its own factors": (
        "llama",
        {
            "rope_parameters": YARN
            | {"beta_fast": 16, "beta_slow": 2, "mscale": 1.2, "mscale_all_dim": 0.7}
            | {"truncate": False}
        },
    ),
    "mistral that sees everything": ("mistral", {"sliding_window": None}),
    "mistral that slides": ("mistral", {"sliding_window": 9}),
    "mistral whose window is a block": ("mistral", {"sliding_window": 4}),
    "qwen2": ("qwen2", {}),
    "qwen2 whose upper layer slides": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
    ),
    "qwen3": ("qwen3", {"head_dim": 16}),
    "qwen3 with tied embeddings and biases": (
        "qwen3",
        {"head_dim": 8, "tie_word_embeddings": True, "attention_bias": True},
    ),
}
PROMPT = [int(n) for n in torch.randint(3, VOCABULARY, (43,), generator=torch.manual_seed(5))]


def logprobs_of(answer: Answer) -> Tensor:
    """`[output, vocabulary]` from an answer that lists every alternative."""
    rows = torch.zeros(len(answer.logprobs), VOCABULARY)
    for row, logprob in zip(rows, answer.logprobs, strict=True):
        for token_id, value in logprob.top:
            row[token_id] = value
    return rows


@pytest.mark.parametrize("name", MODELS)
def test_a_model_answers_what_transformers_answers(name: str, tmp_path: Path) -> None:
    model_type, fields = MODELS[name]
    directory = make_model(tmp_path, model_type, **fields)
    engine = make_engine(directory, describe(directory, max_model_tokens=128))
    sampling = SamplingParams(max_tokens=6, temperature=0.0, logprobs=VOCABULARY)
    answers = run(
        engine,
        request("short", PROMPT[:3], sampling),
        request("long", PROMPT, sampling),
        request("single", PROMPT[:1], sampling),
    )
    engine.close()
    transformers = oracle(directory)
    for request_id, prompt in {"short": PROMPT[:3], "long": PROMPT, "single": PROMPT[:1]}.items():
        answer = answers[request_id]
        wanted = oracle_logits(transformers, prompt, answer.token_ids).log_softmax(-1)
        torch.testing.assert_close(logprobs_of(answer), wanted, atol=2e-4, rtol=0)
        assert answer.token_ids == wanted.argmax(-1).tolist()


def test_a_sharded_model_really_has_shards(tmp_path: Path) -> None:
    make_model(tmp_path, "llama", shard_bytes=4000)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1


def test_every_served_architecture_has_a_file() -> None:
    assert set(ARCHITECTURES) == set(SERVED_ARCHITECTURES)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, "GPT2LMHeadModel"),
        ({"rope_parameters": {"rope_type": "longrope", "factor": 2.0}}, "longrope"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 2.0}}, "low_freq_factor"),
        ({"hidden_act": "gelu"}, "gelu"),
    ],
)
def test_what_is_not_served_is_refused_by_name(
    changes: dict[str, Any], named: str, tmp_path: Path
) -> None:
    make_model(tmp_path, "llama")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(UnsupportedModel) as refused:
        read_decoder_config(tmp_path)
    assert named in f"{refused.value.message} {refused.value.field}"


def test_an_unknown_layer_type_is_refused_by_name(tmp_path: Path) -> None:
    make_model(tmp_path, "qwen2")
    config = json.loads((tmp_path / "config.json").read_text())
    config["layer_types"] = ["full_attention", "linear_attention"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedModel, match="linear_attention"):
        read_decoder_config(tmp_path)
