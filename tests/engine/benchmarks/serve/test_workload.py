"""The same seed asks the same; requests share their prefix and nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.benchmarks.errors import InvalidWorkload
from loraplex.engine.benchmarks.serve.targets import Target
from loraplex.engine.benchmarks.serve.workload import Workload, calls

TARGETS = [Target("a"), Target("b"), Target("c")]


@given(st.integers(0, 40), st.integers(1, 40), st.integers(), st.floats(0.5, 50))
def test_prompts_begin_with_the_shared_prefix_and_differ_behind_it(
    prefix: int, rest: int, seed: int, rate: float
) -> None:
    workload = Workload(
        prompt_tokens=prefix + rest,
        output_tokens=4,
        prefix_tokens=prefix,
        requests=6,
        seed=seed,
    )
    schedule = calls(workload, TARGETS, rate)
    prompts = [json.loads(call.body)["prompt"] for call in schedule]
    assert {len(prompt) for prompt in prompts} == {prefix + rest}
    assert len({tuple(prompt[:prefix]) for prompt in prompts}) == 1
    assert len({tuple(prompt) for prompt in prompts}) > 1
    assert {json.loads(call.body)["model"] for call in schedule} <= {"a", "b", "c"}
    assert schedule == calls(workload, TARGETS, rate)


def test_another_rate_asks_other_prompts_behind_the_same_prefix() -> None:
    workload = Workload(prompt_tokens=20, output_tokens=4, prefix_tokens=10, requests=1)
    (one,), (two,) = (calls(workload, TARGETS, rate) for rate in (1.0, 2.0))
    first, second = (json.loads(call.body)["prompt"] for call in (one, two))
    assert first[:10] == second[:10]
    assert first[10:] != second[10:]


def test_a_body_asks_for_exactly_so_many_tokens_with_usage() -> None:
    workload = Workload(prompt_tokens=5, output_tokens=7, requests=1)
    (call,) = calls(workload, [Target("a")], 1.0)
    body = json.loads(call.body)
    assert (body["max_tokens"], body["ignore_eos"], body["temperature"]) == (7, True, 0)
    assert body["stream_options"] == {"include_usage": True}


def test_for_servers_that_know_no_ignore_eos_it_is_left_out() -> None:
    workload = Workload(prompt_tokens=5, output_tokens=7, requests=1, ignore_eos=False)
    (call,) = calls(workload, [Target("a")], 1.0)
    assert "ignore_eos" not in json.loads(call.body)


def test_a_prefix_longer_than_the_prompt_is_refused() -> None:
    with pytest.raises(InvalidWorkload, match="longer than the prompt"):
        Workload(prompt_tokens=5, output_tokens=7, prefix_tokens=6, requests=1).check()
