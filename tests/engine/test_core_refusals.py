"""What the engine refuses when it arrives, and by which name."""

from pathlib import Path
from typing import Any

import pytest

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.errors import AdapterTooLarge, PromptTooLong
from loraplex.engine.protocol.sampling import SamplingParams
from loraplex.engine.scheduler.errors import DuplicateRequest, InvalidRequest
from tests.engine.driving import finish, greedy, request, run
from tests.engine.tiny import VOCABULARY
from tests.engine.tiny_engines import PROMPT, adapter_pages

# PEFT asks Transformers by a name that Transformers has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")


def test_what_can_never_fit_is_refused_naming_both_numbers(make: Any, base: Path) -> None:
    engine = make(pages=6)
    engine.add(request("fits", PROMPT[:20], greedy(5)))
    with pytest.raises(PromptTooLong, match=r"21 prompt tokens and 5 .* are 26.*room for 25"):
        engine.add(request("pool", PROMPT[:21], greedy(5)))
    with pytest.raises(PromptTooLong, match=r"60 prompt tokens and 69 .* are 129.*holds 128"):
        engine.add(request("model", PROMPT, greedy(69)))
    assert len(finish(engine)["fits"].token_ids) == 5


def test_an_adapter_larger_than_the_pool_is_refused(make: Any, refs: list[AdapterRef]) -> None:
    pages = adapter_pages(make, refs[0])
    with pytest.raises(AdapterTooLarge, match=f"{pages} pages .* has {pages}"):
        make(pages=pages).add(request("r", PROMPT[:2], greedy(1), refs[0]))
    engine = make(pages=pages + 1)
    assert len(run(engine, request("r", PROMPT[:4], greedy(1), refs[0]))["r"].token_ids) == 1
    with pytest.raises(PromptTooLong, match="room for 5"):
        engine.add(request("r", PROMPT[:5], greedy(1), refs[0]))


def test_impossible_tokens_are_refused_by_field(make: Any) -> None:
    engine = make()
    refused = {
        "prompt": request("r", [1, VOCABULARY], greedy(1)),
        "logit_bias": request("r", [1], SamplingParams(max_tokens=1, logit_bias={-1: 1.0})),
        "stop_token_ids": request("r", [1], greedy(1, (VOCABULARY,))),
        "max_tokens": request("r", [1], greedy(0)),
    }
    for field, one in refused.items():
        with pytest.raises(InvalidRequest) as error:
            engine.add(one)
        assert error.value.field == field
    with pytest.raises(InvalidRequest, match="empty"):
        engine.add(request("r", [], greedy(1)))
    assert not engine.has_work


def test_a_request_id_is_taken_while_its_request_lives(make: Any) -> None:
    engine = make()
    engine.add(request("r", PROMPT[:3], greedy(1)))
    with pytest.raises(DuplicateRequest):
        engine.add(request("r", PROMPT[:3], greedy(1)))
    assert len(finish(engine)["r"].token_ids) == 1
    assert len(run(engine, request("r", PROMPT[:3], greedy(1)))["r"].token_ids) == 1
