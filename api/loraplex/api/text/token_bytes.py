"""The bytes each token stands for, read from the tokenizer's own description of its decoder.

Text comes from joining bytes and decoding once, so it is the same however tokens arrive. Two
families cover the Llama-like models: byte-level BPE (Llama 3, Qwen, SmolLM) and SentencePiece with
byte fallback (Llama 2, Mistral). Another decoder is refused by name, not guessed at.
"""

import json
import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as HuggingFaceTokenizer

from loraplex.engine.protocol.errors import UnsupportedModel

BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
SPACE_MARK = "\u2581"


class TokenBytes:
    """Bytes by token id. `strips_first_space`: a text's first space belongs to no word."""

    def __init__(self, tokenizer: HuggingFaceTokenizer, description: dict[str, Any]) -> None:
        """`description` is the content of tokenizer.json; raises UnsupportedModel."""
        parts = _decoder_parts(description.get("decoder"))
        kinds = {part["type"] for part in parts}
        self._tokenizer = tokenizer
        self._known: dict[int, bytes] = {}
        self.strips_first_space = False
        self._to_bytes: Callable[[str], bytes]
        if "ByteLevel" in kinds:
            self._to_bytes = _byte_level
        elif kinds & {"ByteFallback", "Metaspace"}:
            self._to_bytes = _sentencepiece
            self.strips_first_space = any(map(_strips_first_space, parts))
        else:
            names = ", ".join(sorted(kinds)) or "none"
            raise UnsupportedModel(
                f"The tokenizer's decoder ({names}) is not known.",
                field="decoder",
                rule="ByteLevel, or SentencePiece with byte fallback",
                value=names,
            )
        added = description.get("added_tokens", [])
        self.special_ids = frozenset(token["id"] for token in added if token["special"])

    @classmethod
    def load(cls, tokenizer: HuggingFaceTokenizer, file: Path) -> "TokenBytes":
        return cls(tokenizer, json.loads(file.read_text("utf-8")))

    @cached_property
    def longest_bytes(self) -> int:
        """The most bytes that one token stands for."""
        ids = range(self._tokenizer.get_vocab_size(with_added_tokens=True))
        return max(len(self.of(token_id)) for token_id in ids)

    def of(self, token_id: int) -> bytes:
        """The token's bytes, special ones included; none for an id no token has."""
        known = self._known.get(token_id)
        if known is None:
            token = self._tokenizer.id_to_token(token_id)
            if token is None:
                known = b""
            elif token_id in self.special_ids:
                known = token.encode()
            else:
                known = self._to_bytes(token)
            self._known[token_id] = known
        return known


def _decoder_parts(decoder: dict[str, Any] | None) -> list[dict[str, Any]]:
    if decoder is None:
        return []
    if decoder["type"] == "Sequence":
        return [part for inner in decoder["decoders"] for part in _decoder_parts(inner)]
    return [decoder]


def _strips_first_space(part: dict[str, Any]) -> bool:
    if part["type"] == "Strip":
        return bool(part["content"] == " " and part["start"] > 0)
    if part["type"] == "Metaspace":
        return bool(part.get("prepend_scheme", "always") != "never")
    return False


def _byte_level_alphabet() -> dict[str, int]:
    """GPT-2's: printable bytes stand for themselves, the others for characters from 256 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + place): byte for place, byte in enumerate(others)
    }


BYTE_OF_CHARACTER = _byte_level_alphabet()


def _byte_level(token: str) -> bytes:
    try:
        return bytes(BYTE_OF_CHARACTER[character] for character in token)
    except KeyError:  # an added token is kept as plain text
        return token.encode()


def _sentencepiece(token: str) -> bytes:
    if byte := BYTE_TOKEN.fullmatch(token):
        return bytes([int(byte[1], 16)])
    return token.replace(SPACE_MARK, " ").encode()
