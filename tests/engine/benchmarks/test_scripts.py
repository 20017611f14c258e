"""The scripts in tests/benchmarks measure what they say, here on a tiny model."""

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import (
    adapter_churn,
    adapter_scale,
    adapter_tiers,
    cold_start,
    peers,
    peft_batch,
    prefix_hit,
)
from tests.engine.benchmarks.conftest import TinyFolders
from tests.soak import examples

Lines = list[dict[str, Any]]
Main = Callable[[Sequence[str] | None], None]


@pytest.fixture
def lines(tiny: TinyFolders, capsys: pytest.CaptureFixture[str]) -> Callable[..., Lines]:
    def run(main: Main, *arguments: object) -> Lines:
        main(["--model", str(tiny.model), "--threads", "1", *map(str, arguments)])
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def test_adapters_of_a_working_set_in_the_budget_stay_and_others_are_loaded(
    lines: Callable[..., Lines],
) -> None:
    found = lines(
        adapter_scale.main,
        *("--registered", "4,40", "--budget", 8, "--requests", 60, "--repeat", 1),
        *("--prompt-tokens", 4, "--output-tokens", 4),
    )
    sets = [(line["registered"], line["working_set"], line["is_resident"]) for line in found]
    assert sets == [(4, 4, True), (40, 4, True), (40, 8, True), (40, 40, False)]
    assert found[0]["ratio"] == 1
    assert [line["loads"] == [0] for line in found] == [True, True, True, False]


def test_churn_loads_adapters_beside_a_stream_whose_tokens_stay(
    lines: Callable[..., Lines],
) -> None:
    one, last = lines(
        adapter_churn.main,
        *("--rank", 4, "--churned", 8, "--prompt-tokens", 8, "--output-tokens", 60, "--rate", 500),
        *("--repeat", 1),
    )
    assert one["tokens"] == 60
    assert one["tokens_are_identical"]
    assert one["loads_per_s"] > 0
    assert last["itl_ratio"] == one["itl_ratio"] > 0


def test_cold_starts_come_from_the_store_and_are_compared_with_warm_ones(
    lines: Callable[..., Lines],
) -> None:
    (one,) = lines(cold_start.main, *("--adapters", 3, "--apart-tokens", 3))
    assert one["adapters"] == 3
    assert one["cold_ttft_ms"] > one["warm_ttft_ms"] > 0
    assert one["itl_ratio"] > 0


def test_tiers_under_zipf_load_hit_as_often_as_lru_or_nearly(lines: Callable[..., Lines]) -> None:
    (one,) = lines(adapter_tiers.main, "--requests", examples(1200, 20_000))
    for tier in ("device", "host", "memory"):
        assert one[tier] >= 0.95 * one[f"{tier}_lru"] > 0, one
    # The last fetch counts when it is flushed, which may be under way.
    assert one["adapters_called"] - 1 <= one["store"] <= one["adapters_called"]
    # A transfer that was over before it could be followed is found on the disk, too.
    misses = round((1 - one["memory"]) * one["requests"])
    assert misses - 1 <= one["disk"] + one["store"] <= 1.05 * misses


@pytest.mark.parametrize("rank", [0, 4])
def test_the_second_request_on_a_prefix_hits(lines: Callable[..., Lines], rank: int) -> None:
    *each, median = lines(
        prefix_hit.main,
        *("--prefix-tokens", 64, "--suffix-tokens", 5, "--repeat", 2, "--rank", rank),
    )
    assert [line["kind"] for line in each] == ["miss", "hit"] * 2
    assert [line["cached_tokens"] for line in each] == [0, 64] * 2
    assert median["ratio"] > 0


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")
def test_pefts_mixed_batch_is_compared_with_its_own_base(
    lines: Callable[..., Lines], tiny: TinyFolders
) -> None:
    folders = [part for folder in tiny.adapters for part in ("--adapter", folder)]
    base, mixed, ratio = lines(
        peft_batch.main, *folders, "--sequences", 4, "--prompt-tokens", 8, "--output-tokens", 9
    )
    assert (base["adapters_in_batch"], mixed["adapters_in_batch"]) == (0, 2)
    assert ratio["decode"] == pytest.approx(
        mixed["decode_tokens_per_s"] / base["decode_tokens_per_s"], abs=1e-3
    )


def test_a_peer_runs_in_turn_with_us_on_the_same_workload(
    lines: Callable[..., Lines],
    tiny: TinyFolders,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = ["--pool-bytes", str(2**20)]  # of a tiny model's pages the default is a million
    monkeypatch.setattr(peers, "OURS", [*peers.OURS, *small])
    speeds = {"prefill_tokens_per_s": 50.0, "decode_tokens_per_s": 10.0}
    peer = tmp_path / "peer.py"
    peer.write_text(
        "import json, sys\n"
        f"open({str(tmp_path / 'asked')!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
        f"print('a peer says more'); print(json.dumps({speeds}))\n"
    )

    base, mixed = lines(
        peers.main,
        *("--peer-command", shlex.join([sys.executable, str(peer), "--own", "option"])),
        *("--adapter", tiny.adapters[0], "--adapters-in-batch", "0,1", "--sequences", 3),
        *("--prompt-tokens", 8, "--output-tokens", 17, "--repeat", 1, "--rounds", 1),
    )

    assert base["of_own_base"] == dict.fromkeys(peers.METRICS, 1)
    for line in (base, mixed):
        assert line["theirs"] == [speeds]
        for metric in peers.METRICS:
            ratio = line["ours"][0][metric] / speeds[metric]
            assert line["ratio"][metric] == pytest.approx(ratio, abs=1e-3)
    shared = f"--own option --model {tiny.model} --repeat 1 --sequences 3"
    lengths = "--prompt-tokens 8 --output-tokens 17"
    assert (tmp_path / "asked").read_text().splitlines() == [
        f"{shared} {lengths} --adapters-in-batch 0",
        f"{shared} {lengths} --adapters-in-batch 1 --adapter {tiny.adapters[0]}",
    ]
