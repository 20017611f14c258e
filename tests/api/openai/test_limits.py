import msgspec
import pytest

from loraplex.api.openai.limits import check_prompt, context_of, fit, room_of
from loraplex.engine.protocol.adapter import AdapterModule, AdapterSpec, TensorRef
from loraplex.engine.protocol.errors import PromptTooLong
from loraplex.engine.protocol.identity import Digest
from loraplex.engine.protocol.workers import WorkerLimits
from tests.api.openai.tables import TABLE

NOTHING = Digest("sha256:" + "0" * 64)


def limits(max_model_tokens: int, pool_tokens: int) -> WorkerLimits:
    return WorkerLimits(max_model_tokens, pool_tokens, 16, 4096, pool_tokens // 16, 8)


@pytest.mark.parametrize(
    ("worker", "context"), [(None, 50), (limits(40, 96), 40), (limits(96, 32), 32)]
)
def test_the_context_is_the_smallest_of_model_worker_and_pool(
    worker: WorkerLimits | None, context: int
) -> None:
    assert context_of(TABLE, worker) == context


def test_a_prompt_and_its_answer_fit_together_or_both_numbers_are_told() -> None:
    assert fit(10, 40, 50, 50, "max_tokens") == 40
    with pytest.raises(PromptTooLong) as refused:
        fit(10, 41, 50, 50, "max_tokens")
    assert refused.value.field == "max_tokens"
    assert "51" in refused.value.message
    assert "50" in refused.value.message


def test_a_prompt_that_can_never_fit_is_told_both_numbers() -> None:
    check_prompt(49, 50, "prompt")
    with pytest.raises(PromptTooLong) as refused:
        check_prompt(50, 50, "prompt[2]")
    assert refused.value.field == "prompt[2]"
    assert "50 tokens" in refused.value.message
    with pytest.raises(PromptTooLong, match="at least 51"):
        check_prompt(51, 50, "prompt", at_least=True)


def test_an_answer_of_no_said_length_leaves_room_for_the_adapter() -> None:
    a, b = (TensorRef("t", "F32", (8, 64), 0, 1), TensorRef("t", "F32", (64, 8), 0, 1))
    module = AdapterModule("m", 0, "q_proj", 8, 1.0, a, b)
    spec = AdapterSpec(NOTHING, NOTHING, NOTHING, 1, (module,))
    assert spec.parameters * 4 == 4096
    worker = limits(1000, 64)
    room_tokens = room_of(spec, worker, 64)
    assert room_tokens == 64 - 2 * 16
    assert fit(10, None, room_tokens, 64, "max_tokens") == 22
    assert fit(40, None, room_tokens, 64, "max_tokens") == 1
    assert room_of(None, worker, 64) == room_of(spec, None, 64) == 64
    assert msgspec.structs.asdict(worker)["pool_pages"] == 4
