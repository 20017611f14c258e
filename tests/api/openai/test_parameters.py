import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.api.openai.parameters import (
    MAX_SEQUENCES,
    chat_logprobs_wanted,
    chat_max_tokens,
    check_common,
    check_completion,
    check_sequences,
    sampling_of,
    seed_of_choice,
)
from loraplex.api.openai.schemas import ChatBody, CompletionBody
from loraplex.api.refusals import InvalidValue
from loraplex.engine.protocol.sampling import SamplingParams
from tests.api.openai.tables import TABLE


def chat(**fields: object) -> ChatBody:
    message = {"role": "user", "content": "Hi"}
    return ChatBody.model_validate({"model": "m", "messages": [message], **fields})


def completion(**fields: object) -> CompletionBody:
    return CompletionBody.model_validate({"model": "m", "prompt": "Hi", **fields})


def sampling(body: ChatBody | CompletionBody, max_tokens: int = 10) -> SamplingParams:
    return sampling_of(body, max_tokens=max_tokens, logprobs=None, table=TABLE)


def test_both_names_of_max_tokens_are_heard() -> None:
    assert chat_max_tokens(chat()) == (None, "max_tokens")
    assert chat_max_tokens(chat(max_tokens=3)) == (3, "max_tokens")
    assert chat_max_tokens(chat(max_completion_tokens=4)) == (4, "max_completion_tokens")
    assert chat_max_tokens(chat(max_tokens=4, max_completion_tokens=4))[0] == 4
    with pytest.raises(InvalidValue) as refused:
        chat_max_tokens(chat(max_tokens=3, max_completion_tokens=4))
    assert refused.value.field == "max_tokens"


def test_top_logprobs_need_logprobs() -> None:
    assert chat_logprobs_wanted(chat()) is None
    assert chat_logprobs_wanted(chat(logprobs=True)) == 0
    assert chat_logprobs_wanted(chat(logprobs=True, top_logprobs=5)) == 5
    with pytest.raises(InvalidValue) as refused:
        chat_logprobs_wanted(chat(top_logprobs=5))
    assert refused.value.field == "top_logprobs"


def test_best_of_is_served_only_as_n() -> None:
    check_completion(completion(n=2, best_of=2))
    for best_of in (1, 3):
        with pytest.raises(InvalidValue) as refused:
            check_completion(completion(n=2, best_of=best_of))
        assert refused.value.field == "best_of"


def test_an_echo_has_no_logprobs() -> None:
    check_completion(completion(echo=True))
    with pytest.raises(InvalidValue) as refused:
        check_completion(completion(echo=True, logprobs=1))
    assert refused.value.field == "logprobs"


def test_stream_options_need_a_stream() -> None:
    check_common(chat(stream=True, stream_options={"include_usage": True}))
    with pytest.raises(InvalidValue) as refused:
        check_common(chat(stream_options={"include_usage": True}))
    assert refused.value.field == "stream_options"


def test_one_request_has_only_so_many_sequences() -> None:
    check_sequences(MAX_SEQUENCES // 16, 16)
    with pytest.raises(InvalidValue) as refused:
        check_sequences(MAX_SEQUENCES // 16 + 1, 16)
    assert refused.value.field == "n"


def test_eos_ends_the_answer_unless_it_is_ignored() -> None:
    assert sampling(chat(stop_token_ids=[7, 2])).stop_token_ids == (7, 2, 3)
    assert sampling(chat(stop_token_ids=[7], ignore_eos=True)).stop_token_ids == (7,)


def test_tokens_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(InvalidValue) as refused:
        sampling(chat(stop_token_ids=[1, 100]))
    assert refused.value.field == "stop_token_ids[1]"
    assert sampling(chat(logit_bias={"99": -100})).logit_bias == {99: -100.0}
    for name in ("100", "-1", "1.5", "a", "", "٣", "9" * 5000):
        with pytest.raises(InvalidValue) as refused:
            sampling(chat(logit_bias={name: 1}))
        assert refused.value.field == "logit_bias"


def test_min_tokens_must_be_within_reach() -> None:
    assert sampling(chat(min_tokens=10), max_tokens=10).min_tokens == 10
    with pytest.raises(InvalidValue) as refused:
        sampling(chat(min_tokens=11), max_tokens=10)
    assert refused.value.field == "min_tokens"


def test_top_k_has_two_words_for_no_limit() -> None:
    assert [sampling(chat(top_k=k)).top_k for k in (-1, 0, 5)] == [0, 0, 5]


@given(seed=st.integers(-(2**63), 2**63 - 1))
def test_every_choice_has_a_seed_of_its_own_and_the_first_the_clients(seed: int) -> None:
    first = sampling(chat(seed=seed)).seed
    assert first == seed & (2**63 - 1)
    seeds = [seed_of_choice(first, choice) for choice in range(16)]
    assert seeds[0] == first
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= one < 2**63 for one in seeds)


def test_without_a_seed_two_requests_draw_apart() -> None:
    assert sampling(chat()).seed != sampling(chat()).seed
