"""Text from tokens as they come: whole characters only, special tokens left out."""

import codecs

from loraplex.api.text.token_bytes import TokenBytes


class Detokenizer:
    """The text of one sequence.

    `continues` says that the sequence goes on from a text before it: then a SentencePiece model's
    first space is a real one.
    """

    def __init__(self, tokens: TokenBytes, *, continues: bool = False) -> None:
        self._tokens = tokens
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._strip = tokens.strips_first_space and not continues

    def push(self, token_id: int) -> str:
        """The characters that `token_id` completes, often none."""
        if token_id in self._tokens.special_ids:
            return ""
        data = self._tokens.of(token_id)
        if self._strip and data:
            data = data.removeprefix(b" ")
            self._strip = False
        return self._decoder.decode(data)

    def flush(self) -> str:
        """U+FFFD when the sequence ended inside a character, as a decoder of the whole would."""
        return self._decoder.decode(b"", final=True)
