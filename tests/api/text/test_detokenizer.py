from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from loraplex.api.text.base_text import BaseText
from loraplex.api.text.detokenizer import Detokenizer
from loraplex.api.text.token_bytes import TokenBytes
from loraplex.engine.protocol.errors import UnsupportedModel
from tests.soak import examples

VOCABULARY = 49152


def pieces_of(ids: Sequence[int], tokens: TokenBytes) -> list[str]:
    detokenizer = Detokenizer(tokens)
    return [*map(detokenizer.push, ids), detokenizer.flush()]


@pytest.mark.parametrize(
    "text",
    [
        "Plain words, and more of them.",
        "🦜🏴‍☠️ emoji with joiners 👩‍👩‍👧‍👦",
        "日本語と中文和한국어",
        "combining: e\u0301 n\u0303 a\u030a\u0323, नमस्ते",
        "rare: 𓀀 𝔘 \U0001fae8 ﷽",
        "  leading, trailing and\ttabs\n\n",
        "",
    ],
)
def test_joined_pieces_are_the_text_in_whole_characters(
    text: str, base_text: BaseText, tokenizer: Tokenizer
) -> None:
    ids = tokenizer.encode(text).ids
    pieces = pieces_of(ids, base_text.tokens)
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)


@given(text=st.text(max_size=40))
@settings(max_examples=examples(200, 10_000), deadline=None)
def test_any_text_comes_back_as_the_tokenizer_gives_it_back(
    text: str, base_text: BaseText, tokenizer: Tokenizer
) -> None:
    # SmolLM2 has no tokens for some bytes of rare planes, so not every text survives.
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert "".join(pieces_of(ids, base_text.tokens)) == tokenizer.decode(ids)


@given(ids=st.lists(st.integers(0, VOCABULARY - 1), max_size=30))
@settings(max_examples=examples(300, 20_000), deadline=None)
def test_any_tokens_give_what_the_tokenizer_decodes(
    ids: list[int], base_text: BaseText, tokenizer: Tokenizer
) -> None:
    assert "".join(pieces_of(ids, base_text.tokens)) == tokenizer.decode(ids)


def test_half_a_character_is_not_shown_before_the_end(
    base_text: BaseText, tokenizer: Tokenizer
) -> None:
    ids = tokenizer.encode("🦜").ids
    assert len(ids) > 1
    assert pieces_of(ids[:-1], base_text.tokens) == [*[""] * (len(ids) - 1), "\ufffd"]


def test_special_tokens_are_not_shown(base_text: BaseText, tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("<|im_start|>hi<|im_end|>").ids
    assert "".join(pieces_of(ids, base_text.tokens)) == "hi"


def test_an_id_beyond_the_vocabulary_is_no_text(base_text: BaseText) -> None:
    assert pieces_of([10**6], base_text.tokens) == ["", ""]


@pytest.fixture
def sentencepiece() -> TokenBytes:
    """A Llama-2-like vocabulary: words, a space mark and byte fallback."""
    words = ["<unk>", "\u2581hello", "\u2581world", "!"]
    vocabulary = words + [f"<0x{byte:02X}>" for byte in range(256)]
    model = models.BPE(
        vocab={token: place for place, token in enumerate(vocabulary)},
        merges=[],
        unk_token="<unk>",
        byte_fallback=True,
    )
    tokenizer = Tokenizer(model)
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    description = {
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "added_tokens": [{"id": 0, "content": "<unk>", "special": True}],
    }
    return TokenBytes(tokenizer, description)


BYTES_START = 4


def test_byte_fallback_tokens_wait_for_their_character(sentencepiece: TokenBytes) -> None:
    ids = [1, *(BYTES_START + byte for byte in "🦜語".encode()), 2, 3]
    pieces = pieces_of(ids, sentencepiece)
    assert "".join(pieces) == "hello🦜語 world!"
    assert pieces[1:8] == ["", "", "", "🦜", "", "", "語"]


def test_a_text_that_goes_on_keeps_its_first_space(sentencepiece: TokenBytes) -> None:
    assert Detokenizer(sentencepiece).push(2) == "world"
    assert Detokenizer(sentencepiece, continues=True).push(2) == " world"


def test_an_unknown_decoder_is_refused_by_name(tokenizer: Tokenizer) -> None:
    with pytest.raises(UnsupportedModel, match="WordPiece"):
        TokenBytes(tokenizer, {"decoder": {"type": "WordPiece"}, "added_tokens": []})
