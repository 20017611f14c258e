"""An engine whose device runs ahead answers what one that waits answers."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from loraplex.engine.core import EngineCore
from loraplex.engine.execution.cuda_executor import STEPS_AHEAD, GraphExecutor
from loraplex.engine.execution.device import open_device
from loraplex.engine.execution.eager import EagerExecutor
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.protocol.generation import GenerationRequest
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.protocol.sampling import SamplingParams
from tests.engine.driving import Answer, LocalFiles, request, run
from tests.engine.execution.host_device import HostDevice
from tests.engine.tiny import VOCABULARY, make_adapter, make_engine

# PEFT asks Transformers by a name that Transformers has renamed.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning"),
    # It saves copies of adapted tables of tokens.
    pytest.mark.filterwarnings("ignore:Setting .save_embedding_layers.:UserWarning"),
]

PROMPT = [int(n) for n in torch.randint(3, VOCABULARY, (20,), generator=torch.manual_seed(1))]
MAX_SEQUENCES = 6


@pytest.fixture(scope="module")
def refs(
    base: Path, tiny_table: ModuleTable, tmp_path_factory: pytest.TempPathFactory
) -> list[AdapterRef]:
    folder = tmp_path_factory.mktemp("adapters")
    return [
        make_adapter(folder / str(rank), base, tiny_table, rank, r=rank, target_modules=linears)
        for rank, linears in ((2, ["q_proj", "v_proj"]), (24, ["down_proj", "k_proj", "o_proj"]))
    ]


def engine_ahead(base: Path, table: ModuleTable, max_tokens: int) -> EngineCore:
    """An engine that records graphs for contexts of at most `max_tokens`."""
    config = EngineConfig(
        model_dir=str(base),
        base_name="tiny",
        device="cpu",
        pool_bytes=2**20,
        block_tokens=4,
        max_step_tokens=9,
        max_running_requests=MAX_SEQUENCES,
        adapter_cache_dir=str(base),
    )
    device = open_device(config, table)
    assert isinstance(device.executor, EagerExecutor)
    executor = GraphExecutor(
        HostDevice(),
        device.executor.model,
        device.pool,
        device.geometry,
        device.tile_rank,
        max_sequences=MAX_SEQUENCES,
        max_tokens=max_tokens,
        vocabulary_size=table.vocabulary_size,
    )
    ahead = replace(device, executor=executor, steps_ahead=STEPS_AHEAD)
    return EngineCore(config, table, LocalFiles(), ahead)


def mixed_requests(refs: list[AdapterRef]) -> list[GenerationRequest]:
    """Greedy, drawn, penalised and logged ones, of the base and of two adapters."""
    samplings = {
        "greedy": SamplingParams(max_tokens=12, temperature=0.0),
        "drawn": SamplingParams(max_tokens=9, temperature=0.8, top_p=0.9, seed=5),
        "penalised": SamplingParams(max_tokens=10, temperature=0.0, repetition_penalty=1.4),
        "logged": SamplingParams(max_tokens=7, temperature=0.0, logprobs=3),
        "patient": SamplingParams(
            max_tokens=8, temperature=0.0, min_tokens=4, stop_token_ids=tuple(range(3, 60))
        ),
    }
    return [
        request(f"{name} {number}", PROMPT[number : 4 + 5 * number], sampling, adapter)
        for name, sampling in samplings.items()
        for number, adapter in enumerate([None, *refs])
    ]


def tokens(answers: dict[str, Answer]) -> dict[str, list[int]]:
    return {name: answer.token_ids for name, answer in answers.items()}


@pytest.fixture(scope="module")
def more_than_pairs(
    base: Path, tiny_table: ModuleTable, tmp_path_factory: pytest.TempPathFactory
) -> AdapterRef:
    """An adapter of kinds that no graph is recorded for."""
    every = ["q_proj", "down_proj", "embed_tokens", "lm_head"]
    folder = tmp_path_factory.mktemp("every")
    return make_adapter(folder, base, tiny_table, 7, r=5, target_modules=every, use_dora=True)


def test_a_step_that_no_graph_has_is_run_op_by_op(
    base: Path, tiny_table: ModuleTable, refs: list[AdapterRef], more_than_pairs: AdapterRef
) -> None:
    requests = mixed_requests([refs[0], more_than_pairs])
    engine = make_engine(base, tiny_table)
    wanted = run(engine, *requests)
    engine.close()
    ahead = engine_ahead(base, tiny_table, 128)
    found = run(ahead, *requests)
    ahead.close()
    assert tokens(found) == tokens(wanted)


@pytest.mark.parametrize("max_tokens", [128, 12], ids=["all in graphs", "long ones eagerly"])
def test_running_ahead_changes_no_answer(
    max_tokens: int, base: Path, tiny_table: ModuleTable, refs: list[AdapterRef]
) -> None:
    engine = make_engine(base, tiny_table)
    wanted = run(engine, *mixed_requests(refs))
    engine.close()
    ahead = engine_ahead(base, tiny_table, max_tokens)
    found = run(ahead, *mixed_requests(refs))
    ahead.close()
    assert tokens(found) == tokens(wanted)
    for name, answer in wanted.items():
        assert found[name].finish_reason == answer.finish_reason
        for one, other in zip(found[name].logprobs, answer.logprobs, strict=True):
            assert one.logprob == pytest.approx(other.logprob, abs=1e-3)
