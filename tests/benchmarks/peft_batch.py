"""PEFT's mixed batch as a peer: generate(adapter_names=[…]) on the workload of `bench offline`.

    python tests/benchmarks/peft_batch.py --model DIR --adapter A0 … --adapter A7

Prints the base model's speed, the mixed batch's, and the second over the first. Each time is the
best of --repeat, as for the other peers.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from loraplex.engine.benchmarks.local_engine import prompt
from loraplex.engine.benchmarks.scripts import arguments_of, print_line
from loraplex.engine.benchmarks.throughput import DECODE_PROMPT_TOKENS, Speed, Workload, speed


def timed(model: Any, workload: Workload, repeat: int, **mixed: Any) -> Callable[[int, int], float]:
    """The best time of a batch, by prompt and output tokens."""

    def best_seconds(prompt_tokens: int, output_tokens: int) -> float:
        vocabulary_size = model.config.vocab_size
        rows = [prompt(i, prompt_tokens, vocabulary_size) for i in range(workload.sequences)]
        ids = torch.tensor(rows)
        best = float("inf")
        for _ in range(repeat):
            started = time.perf_counter()
            with torch.inference_mode():
                model.generate(
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    do_sample=False,
                    min_new_tokens=output_tokens,
                    max_new_tokens=output_tokens,
                    pad_token_id=0,
                    **mixed,
                )
            best = min(best, time.perf_counter() - started)
        return best

    return best_seconds


def measured(workload: Workload, seconds: Callable[[int, int], float]) -> Speed:
    return speed(
        workload,
        prefill_seconds=seconds(workload.prompt_tokens, 1),
        long_seconds=seconds(DECODE_PROMPT_TOKENS, workload.output_tokens),
        short_seconds=seconds(DECODE_PROMPT_TOKENS, 1),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--adapter", action="append", required=True)
    parser.add_argument("--sequences", type=int, default=16)
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--output-tokens", type=int, default=33)
    parser.add_argument("--repeat", type=int, default=2)
    options = parser.parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    count = len(options.adapter)
    workload = Workload(
        sequences=options.sequences,
        prompt_tokens=options.prompt_tokens,
        output_tokens=options.output_tokens,
        adapters_in_batch=0,
    )
    base: Any = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)
    base.eval()
    alone = measured(workload, timed(base, workload, options.repeat))
    print_line("peft_batch", system="peft", adapters_in_batch=0, **msgspec.structs.asdict(alone))

    first, *others = options.adapter
    model = PeftModel.from_pretrained(base, first, adapter_name="a0")
    for number, folder in enumerate(others, start=1):
        model.load_adapter(folder, adapter_name=f"a{number}")
    model.eval()
    names = [f"a{i % count}" for i in range(options.sequences)]
    mixed = measured(workload, timed(model, workload, options.repeat, adapter_names=names))
    print_line(
        "peft_batch", system="peft", adapters_in_batch=count, **msgspec.structs.asdict(mixed)
    )
    print_line(
        "peft_batch_ratio",
        adapters_in_batch=count,
        prefill=mixed.prefill_tokens_per_s / alone.prefill_tokens_per_s,
        decode=mixed.decode_tokens_per_s / alone.decode_tokens_per_s,
    )


if __name__ == "__main__":
    main()
