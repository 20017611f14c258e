from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from loraplex.api.text.base_text import BaseText
from loraplex.api.text.choice_text import ChoiceText, Piece
from loraplex.api.text.token_bytes import TokenBytes
from loraplex.engine.protocol.generation import FinishReason, RequestOutput, TokenLogprob
from tests.soak import examples

WORDS = ["he", "llo", "ABC", "DEF", "GHIJ", "a", "b", "x"]
IDS = {word: place for place, word in enumerate(WORDS)}
EOS = len(WORDS)


@pytest.fixture(scope="module")
def tokens() -> TokenBytes:
    """A byte-level vocabulary of chosen pieces."""
    vocabulary = {word: place for place, word in enumerate([*WORDS, "</s>"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    description = {
        "decoder": {"type": "ByteLevel"},
        "added_tokens": [{"id": EOS, "content": "</s>", "special": True}],
    }
    return TokenBytes(tokenizer, description)


def output(
    ids: Sequence[int],
    finish_reason: FinishReason | None = None,
    stop_token_id: int | None = None,
    with_logprobs: bool = False,
) -> RequestOutput:
    logprobs = [TokenLogprob(-float(one), []) for one in ids] if with_logprobs else None
    return RequestOutput(
        request_id="r",
        token_ids=list(ids),
        logprobs=logprobs,
        output_tokens=len(ids),
        finish_reason=finish_reason,
        stop_token_id=stop_token_id,
    )


def push_words(choice: ChoiceText, words: Sequence[str], **more: bool) -> list[Piece]:
    """One output a word, the last of them at the length limit; stops when the choice does."""
    pieces = []
    for place, word in enumerate(words):
        is_last = place == len(words) - 1
        reason = FinishReason.LENGTH if is_last else None
        pieces.append(choice.push(output([IDS[word]], reason, **more)))
        if choice.finish_reason is not None:
            break
    return pieces


def test_a_begin_of_a_stop_string_is_shown_at_the_end(tokens: TokenBytes) -> None:
    choice = ChoiceText(tokens, stop_strings=["lox"])
    pieces = push_words(choice, ["he", "llo"])
    assert [piece.text for piece in pieces] == ["he", "llo"]
    assert choice.finish_reason is FinishReason.LENGTH
    assert choice.output_tokens == 2


def test_a_stop_string_across_tokens_ends_text_count_and_logprobs_at_its_last_token(
    tokens: TokenBytes,
) -> None:
    choice = ChoiceText(tokens, stop_strings=["DEFGHIJ"])
    ids = [IDS[word] for word in ("ABC", "DEF", "GHIJ", "he", "llo")]
    piece = choice.push(output(ids, FinishReason.LENGTH, with_logprobs=True))
    assert piece.text == "ABC"
    assert piece.finish_reason is choice.finish_reason is FinishReason.STOP
    assert choice.output_tokens == 3
    assert [token.token_id for token in piece.tokens] == ids[:3]
    assert [token.text_offset for token in piece.tokens] == [0, 3, 6]


def test_a_stop_token_is_counted_and_not_shown(tokens: TokenBytes) -> None:
    for stop_token in (EOS, IDS["llo"]):
        choice = ChoiceText(tokens)
        ids = [IDS["he"], stop_token]
        piece = choice.push(output(ids, FinishReason.STOP, stop_token))
        assert (piece.text, choice.output_tokens) == ("he", 2)


def test_an_ignored_eos_is_not_shown_and_the_text_goes_on(tokens: TokenBytes) -> None:
    choice = ChoiceText(tokens)
    piece = choice.push(output([IDS["he"], EOS, IDS["llo"]], FinishReason.LENGTH))
    assert piece.text == "hello"


def test_a_stop_token_flushes_what_was_held_back(tokens: TokenBytes) -> None:
    choice = ChoiceText(tokens, stop_strings=["hex"])
    assert choice.push(output([IDS["he"]])).text == ""
    assert choice.push(output([EOS], FinishReason.STOP, EOS)).text == "he"


def test_min_tokens_puts_stop_strings_off(tokens: TokenBytes) -> None:
    words = ["a", "b", "a", "b", "x"]
    assert "".join(p.text for p in push_words(ChoiceText(tokens, stop_strings=["ab"]), words)) == ""
    for min_tokens, text in [(1, ""), (2, "ab"), (3, "ab"), (4, "ababx")]:
        choice = ChoiceText(tokens, stop_strings=["ab"], min_tokens=min_tokens)
        assert "".join(piece.text for piece in push_words(choice, words)) == text
        assert choice.output_tokens > min_tokens


def test_nothing_comes_after_the_end(tokens: TokenBytes) -> None:
    choice = ChoiceText(tokens)
    choice.push(output([], FinishReason.LENGTH))
    with pytest.raises(AssertionError, match="ended"):
        choice.push(output([IDS["he"]]))


@given(
    ids=st.lists(st.integers(0, 49151), min_size=1, max_size=24),
    strings=st.lists(st.text(min_size=1, max_size=3), max_size=3),
    text=st.text(max_size=24),
    data=st.data(),
)
@settings(max_examples=examples(200, 10_000), deadline=None)
def test_streamed_or_whole_the_text_the_count_and_the_logprobs_are_the_same(
    ids: list[int],
    strings: list[str],
    text: str,
    data: st.DataObject,
    base_text: BaseText,
    tokenizer: Tokenizer,
) -> None:
    ids += tokenizer.encode(text).ids
    cuts = sorted(data.draw(st.sets(st.integers(1, len(ids)))))
    bounds = [0, *cuts, len(ids)]
    whole = ChoiceText(base_text.tokens, stop_strings=strings)
    expected = whole.push(output(ids, FinishReason.LENGTH, with_logprobs=True))
    streamed = ChoiceText(base_text.tokens, stop_strings=strings)
    shown, tokens = "", []
    for start, end in pairwise(bounds):
        reason = FinishReason.LENGTH if end == len(ids) else None
        piece = streamed.push(output(ids[start:end], reason, with_logprobs=True))
        shown += piece.text
        tokens += piece.tokens
        if piece.finish_reason is not None:
            break
    assert shown == expected.text
    assert tokens == expected.tokens
    assert len(tokens) == streamed.output_tokens == whole.output_tokens
    assert streamed.finish_reason is whole.finish_reason
    if whole.finish_reason is FinishReason.LENGTH:
        assert shown == tokenizer.decode(ids)
    assert not any(string in shown for string in strings)
