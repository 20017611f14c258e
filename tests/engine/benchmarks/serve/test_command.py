"""`loraplex bench serve` against a real server over HTTP."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from loraplex.engine.benchmarks.commands import bench
from tests.engine.benchmarks.serve.completion_server import CompletionServer, completion_server


@pytest.fixture
def server() -> Iterator[CompletionServer]:
    with completion_server() as served:
        yield served


def serve(*arguments: object) -> Result:
    return CliRunner().invoke(bench, ["serve", *map(str, arguments)])


def measured(server: CompletionServer, *arguments: object) -> list[dict[str, Any]]:
    done = serve("--url", server.url, *arguments, "--json")
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_rate_of_a_sweep_is_a_line_with_latencies_and_goodput(
    server: CompletionServer,
) -> None:
    load = ("--rate", "20,80", "--requests", 8, "--prompt-tokens", 6, "--output-tokens", 5)
    lines = measured(
        server, "--model", "m", "--api-key", "k", *load, "--slo", "ttft=30s,tpot=30s,e2e=60s"
    )

    assert [line["offered_rate"] for line in lines] == [20, 80]
    for line in lines:
        assert (line["requests"], line["completed"], line["good"]) == (8, 8, 8)
        assert line["errors"] == {}
        assert line["goodput_per_s"] == line["requests_per_s"]
        assert line["output_tokens_per_s"] == pytest.approx(5 * line["requests_per_s"], rel=0.01)
        assert line["cached_tokens"] == 8 * 3
        assert line["tpot_ms"]["p50"] > 0
        assert line["itl_ms"]["mean"] == pytest.approx(line["tpot_ms"]["mean"], rel=0.01)
        assert line["ttft_ms"]["p50"] < line["e2e_ms"]["p50"]
    assert {len(body["prompt"]) for body in server.bodies[1:]} == {6}
    assert set(server.keys) == {"Bearer k"}


def test_requests_are_sent_on_time_while_none_is_answered(server: CompletionServer) -> None:
    server.waits_for = 6
    load = ("--rate", 40, "--requests", 6, "--output-tokens", 2, "--arrivals", "constant")
    (line,) = measured(server, "--model", "m", "--no-warm-up", *load)

    assert line["completed"] == 6
    # Nothing is answered before the last has come, 125 ms after the first.
    assert line["ttft_ms"]["p99"] >= 100


def test_failures_are_counted_by_kind_and_are_not_in_the_latencies(
    server: CompletionServer,
) -> None:
    models = ("m", "busy", "fails", "cut", "silent")
    asked = [part for model in models for part in ("--model", model)]
    load = ("--rate", 400, "--requests", 60, "--output-tokens", 2, "--popularity", "uniform")
    (line,) = measured(server, *asked, *load, "--no-warm-up", "--slo", "e2e=60s")

    assert set(line["errors"]) == {"http_429", "error_worker_lost", "cut_short", "no_output"}
    assert line["completed"] + sum(line["errors"].values()) == 60
    assert line["completed"] == line["good"] > 0


def test_without_usage_tokens_are_counted_by_events(server: CompletionServer) -> None:
    (line,) = measured(
        server, "--model", "uncounted", "--rate", 50, "--requests", 2, "--output-tokens", 4
    )
    assert line["output_tokens_per_s"] == pytest.approx(4 * line["requests_per_s"], rel=0.01)


def test_a_table_for_people_names_failures_beside_it(server: CompletionServer) -> None:
    done = serve(
        "--url", server.url, "--model", "m", "--model", "busy", "--no-warm-up",
        "--rate", 100, "--requests", 20, "--output-tokens", 2,
    )  # fmt: skip
    assert done.exit_code == 0
    assert "TTFT ms" in done.stdout
    assert "http_429" in done.stderr


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_sweep_is_drawn(server: CompletionServer, tmp_path: Path, suffix: str) -> None:
    picture = tmp_path / f"sweep.{suffix}"
    load = ("--rate", "20,50", "--requests", 3, "--output-tokens", 3, "--slo", "ttft=1s,tpot=0.1s")
    measured(server, "--model", "m", *load, "--plot", picture)
    start = picture.read_bytes()[:200]
    assert start.startswith(b"\x89PNG") if suffix == "png" else b"<?xml" in start


def test_without_matplotlib_a_plot_is_refused_before_anything_is_sent(
    server: CompletionServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    refused = serve("--url", server.url, "--model", "m", "--plot", tmp_path / "sweep.svg")
    assert refused.exit_code == 1
    assert "loraplex[bench]" in refused.stderr
    assert server.bodies == []


def test_a_running_platform_is_found_by_its_data_directory(
    server: CompletionServer, tmp_path: Path
) -> None:
    tenants = {
        "acme": {"api_key": "ka", "adapters": ["pirate", "json"]},
        "globex": {"api_key": "kg", "adapters": ["shout"]},
    }
    credentials = {"base_url": server.url.removesuffix("/v1"), "tenants": tenants}
    (tmp_path / "credentials.json").write_text(json.dumps(credentials))

    done = serve("--data-dir", tmp_path, "--rate", 50, "--requests", 3, "--json")

    assert done.exit_code == 0, done.output
    warm_ups = list(zip(server.keys, (body["model"] for body in server.bodies), strict=True))[:3]
    assert warm_ups == [
        ("Bearer ka", "acme/pirate"),
        ("Bearer ka", "acme/json"),
        ("Bearer kg", "globex/shout"),
    ]


def test_refusals_are_one_sentence(server: CompletionServer, tmp_path: Path) -> None:
    there = ("--url", server.url, "--model", "m")
    for arguments, sentence in (
        (["--data-dir", tmp_path], "tells of no running `loraplex serve`"),
        (["--url", server.url], "--url needs at least one --model."),
        ([*there, "--rate", "1,-2"], "'1,-2' are no rates"),
        ([*there, "--slo", "fast"], "'fast' is no objective"),
        ([*there, "--plot", "sweep.pdf"], "sweep.pdf is neither"),
        ([*there, "--prefix-tokens", 500], "longer than the prompt"),
        (["--url", server.url, "--model", "busy"], "busy at http"),
        (["--url", "http://127.0.0.1:9", "--model", "m"], "nobody answers there"),
    ):
        refused = serve(*arguments)
        assert refused.exit_code == 1
        assert sentence in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1
