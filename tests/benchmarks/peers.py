"""Ours and a peer in turn on one workload, and the ratios.

    python tests/benchmarks/peers.py --model DIR --adapter A0 … --adapter A7 \\
        --adapters-in-batch 0,8 --peer-command "vllm_cpu.sh VLLM_DIR"

Both commands get the same --model, --adapter, --adapters-in-batch, --sequences, --prompt-tokens,
--output-tokens and --repeat, and print JSON lines with prefill_tokens_per_s and
decode_tokens_per_s. The peer takes the best of its repeats for each of the three times it
measures; so do we here, over our lines of a round. `ratio` is the median over the rounds of ours
over theirs, and `of_own_base` ours over our own with no adapter.
"""

import json
import shlex
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from loraplex.engine.benchmarks.scripts import arguments_of, print_line
from loraplex.engine.benchmarks.throughput import Workload, speed

OURS = [sys.executable, "-m", "loraplex.platform.cli", "bench", "offline", "--json"]
METRICS = ("prefill_tokens_per_s", "decode_tokens_per_s")
TIMES = ("prefill_seconds", "long_seconds", "short_seconds")


def lines_of(command: Sequence[str]) -> list[dict[str, Any]]:
    """The measurements a command prints; what else it prints is left out."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = [line for line in lines if METRICS[0] in line]
    if not found:
        raise SystemExit(f"{command[0]} printed no measurement")
    return found


def best(lines: Sequence[dict[str, Any]], workload: Workload) -> dict[str, float]:
    """Of lines that tell their times, the best of each; else the best speeds."""
    if all(name in line for line in lines for name in TIMES):
        found = speed(workload, **{name: min(line[name] for line in lines) for name in TIMES})
        return {name: getattr(found, name) for name in METRICS}
    return {name: max(line[name] for line in lines) for name in METRICS}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--peer-command", required=True, help="with arguments of its own")
    parser.add_argument("--adapter", action="append", default=[])
    parser.add_argument("--adapters-in-batch", default="0,8", help="a list; each is measured")
    parser.add_argument("--sequences", type=int, default=16)
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--output-tokens", type=int, default=33)
    parser.add_argument("--repeat", type=int, default=2, help="within a run")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each, in turn")
    options = parser.parse_args(arguments)
    own_base: dict[str, float] | None = None
    for count in (int(part) for part in options.adapters_in_batch.split(",")):
        workload = Workload(
            sequences=options.sequences,
            prompt_tokens=options.prompt_tokens,
            output_tokens=options.output_tokens,
            adapters_in_batch=count,
        )
        shared = ["--model", options.model, "--repeat", str(options.repeat)]
        for name in ("sequences", "prompt_tokens", "output_tokens", "adapters_in_batch"):
            shared += [f"--{name.replace('_', '-')}", str(getattr(workload, name))]
        for adapter in options.adapter[:count]:
            shared += ["--adapter", adapter]
        threads = ["--threads", str(options.threads)] if options.threads else []
        ours, theirs = [], []
        for _ in range(options.rounds):
            ours.append(best(lines_of([*OURS, *threads, *shared]), workload))
            theirs.append(best(lines_of([*shlex.split(options.peer_command), *shared]), workload))
        medians = {name: statistics.median(one[name] for one in ours) for name in METRICS}
        if count == 0:
            own_base = medians
        print_line(
            "peers",
            adapters_in_batch=count,
            ours=ours,
            theirs=theirs,
            ratio={
                name: round(
                    statistics.median(a[name] / b[name] for a, b in zip(ours, theirs, strict=True)),
                    3,
                )
                for name in METRICS
            },
            of_own_base=None
            if own_base is None
            else {name: round(medians[name] / own_base[name], 3) for name in METRICS},
        )


if __name__ == "__main__":
    main()
