"""`loraplex bench offline`: one line a repeat, on a real engine; refusals are one sentence."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from loraplex.engine.benchmarks.commands import bench
from loraplex.engine.benchmarks.local_adapters import open_adapter
from loraplex.engine.benchmarks.local_engine import engine_config, finish, local_engine, prompt
from loraplex.engine.benchmarks.offline import OfflineBenchmark
from loraplex.engine.benchmarks.throughput import Workload
from loraplex.engine.core import EngineCore
from loraplex.engine.protocol.generation import GenerationRequest
from tests.engine.benchmarks.conftest import TinyFolders
from tests.engine.tiny import make_model

SMALL = ("--sequences", "5", "--prompt-tokens", "20", "--output-tokens", "9", "--threads", "1")


def offline(*arguments: object) -> Result:
    pool = ("--pool-bytes", str(2**20))
    return CliRunner().invoke(bench, ["offline", *map(str, arguments), *pool, *SMALL])


def test_every_repeat_prints_a_line_with_its_workload_and_its_speed(tiny: TinyFolders) -> None:
    adapters = [part for folder in tiny.adapters for part in ("--adapter", folder)]

    done = offline(
        "--model", tiny.model, *adapters, "--adapters-in-batch", 2, "--repeat", 2, "--json"
    )

    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in done.output.splitlines()]
    assert [line["repeat"] for line in lines] == [0, 1]
    for line in lines:
        assert line["system"] == "loraplex"
        assert line["model"] == "tiny"
        assert (line["adapters_in_batch"], line["max_rank"], line["sequences"]) == (2, 6, 5)
        assert (line["prompt_tokens"], line["output_tokens"]) == (20, 9)
        assert line["prefill_tokens_per_s"] > 0
        # Both say the same: five tokens a step.
        assert line["decode_tokens_per_s"] * line["step_ms"] / 1e3 == pytest.approx(5, rel=0.05)
        assert line["peak_rss_bytes"] > 2**20


def test_without_json_it_prints_a_table(tiny: TinyFolders) -> None:
    done = offline("--model", tiny.model, "--repeat", 1)

    assert done.exit_code == 0, done.output
    assert "Decode tok/s" in done.output
    assert len(done.output.strip().splitlines()) == 2


def test_the_formulas_are_the_peers(tiny: TinyFolders, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {(20, 1): 2.0, (8, 9): 1.5, (8, 1): 0.5}
    workload = Workload(sequences=5, prompt_tokens=20, output_tokens=9, adapters_in_batch=0)
    config = engine_config(tiny.model, tiny.table, pool_bytes=2**20)
    with local_engine(config, tiny.table) as core:
        benchmark = OfflineBenchmark(core, tiny.table, [], workload, config.max_step_tokens)
        monkeypatch.setattr(
            benchmark, "_seconds", lambda prompt, output: seconds.get((prompt, output), 9.9)
        )
        (result,) = benchmark.repeats(1)
    assert result.prefill_tokens_per_s == 5 * 20 / 2.0
    assert result.decode_tokens_per_s == 5 * 8 / 1.0
    assert result.step_ms == 1.0 / 8 * 1e3


def test_prompts_are_the_peers_and_stay_in_a_small_vocabulary() -> None:
    peers = [[(i * 37 + j * 11) % 40000 + 100 for j in range(200)] for i in range(16)]
    assert [prompt(i, 200, 49152) for i in range(16)] == peers
    assert all(0 <= token < 96 for i in range(16) for token in prompt(i, 200, 96))


def test_sequences_use_the_adapters_in_turn_and_loads_come_before_the_measurement(
    tiny: TinyFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    loads: list[int] = []

    def watch(core: EngineCore, requests: list[GenerationRequest]) -> None:
        seen.append([Path(r.adapter.url).parent.name for r in requests if r.adapter])
        finish(core, requests)
        loads.append(core.load().adapter_loads)

    monkeypatch.setattr("loraplex.engine.benchmarks.offline.finish", watch)
    adapters = [open_adapter(folder, tiny.table) for folder in tiny.adapters]
    workload = Workload(sequences=3, prompt_tokens=9, output_tokens=20, adapters_in_batch=2)
    config = engine_config(tiny.model, tiny.table, pool_bytes=2**20)
    with local_engine(config, tiny.table) as core:
        benchmark = OfflineBenchmark(core, tiny.table, adapters, workload, config.max_step_tokens)
        list(benchmark.repeats(1))
    assert seen[-1] == ["rank4", "rank6", "rank4"]
    assert loads == [2, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--model", "EMPTY"], "EMPTY has no"),
        (["--model", "EMPTY/nowhere"], "There is no model"),
        (["--model", "TINY", "--adapter", "EMPTY"], "EMPTY is no PEFT adapter: it has no"),
        (["--model", "OTHER", "--adapter", "RANK4"], "cannot be used on other"),
        (
            ["--model", "TINY", "--adapter", "RANK4", "--adapters-in-batch", "2"],
            "2 adapters in a batch need as many --adapter; 1 were given.",
        ),
        (
            ["--model", "TINY", *["--adapter", "RANK4"] * 6, "--adapters-in-batch", "6"],
            "5 sequences cannot use 6 adapters.",
        ),
    ],
)
def test_a_refusal_is_one_sentence(
    tiny: TinyFolders, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    make_model(tmp_path / "other", "llama", hidden_size=64)
    (tmp_path / "empty").mkdir()
    places = {
        "EMPTY": tmp_path / "empty",
        "OTHER": tmp_path / "other",
        "TINY": tiny.model,
        "RANK4": tiny.adapters[0],
    }

    def placed(text: str) -> str:
        for name, place in places.items():
            text = text.replace(name, str(place))
        return text

    refused = offline(*map(placed, arguments))

    assert refused.exit_code == 1
    assert len(refused.output.strip().splitlines()) == 1
    assert placed(sentence) in refused.output


def test_the_commands_start_without_the_heavy_packages() -> None:
    heavy = ("torch", "transformers", "numpy", "matplotlib")
    script = (
        "import sys, loraplex.engine.benchmarks.commands; "
        f"print([name for name in {heavy} if name in sys.modules])"
    )

    printed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )

    assert printed.stdout.strip() == "[]"
