"""What a client sees of one sequence: text, token count and logprobs, all ending at one token."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from loraplex.api.text.detokenizer import Detokenizer
from loraplex.api.text.stop_strings import StopStrings
from loraplex.api.text.token_bytes import TokenBytes
from loraplex.engine.protocol.generation import FinishReason, RequestOutput, TokenLogprob


@dataclass(frozen=True, slots=True)
class ShownToken:
    """A token with its log-probability; `text_offset` counts the characters before it."""

    token_id: int
    text_offset: int
    logprob: TokenLogprob


@dataclass(slots=True)
class Piece:
    """What one output added: text that may be shown, logprobs, and the end if it came."""

    text: str = ""
    tokens: list[ShownToken] = field(default_factory=list)
    finish_reason: FinishReason | None = None


class ChoiceText:
    """One sequence as it grows.

    A stop string ends it at the token that completes the string: what the engine sampled beyond,
    before it learned of the end, is neither shown nor counted. A stop token is counted, not shown.
    """

    def __init__(
        self,
        tokens: TokenBytes,
        *,
        stop_strings: Sequence[str] = (),
        min_tokens: int = 0,
        continues: bool = False,
    ) -> None:
        self.output_tokens = 0
        self.finish_reason: FinishReason | None = None
        self._detokenizer = Detokenizer(tokens, continues=continues)
        self._stops = StopStrings(stop_strings)
        self._min_tokens = min_tokens
        self._characters = 0

    def push(self, output: RequestOutput) -> Piece:
        """Add an output; nothing may be added after one that finished the text."""
        assert self.finish_reason is None, "the text has ended"
        piece = Piece()
        for place, token_id in enumerate(output.token_ids):
            self.output_tokens += 1
            if output.logprobs is not None:
                piece.tokens.append(ShownToken(token_id, self._characters, output.logprobs[place]))
            is_last = place == len(output.token_ids) - 1
            if is_last and output.stop_token_id == token_id:
                break
            if self._show(self._detokenizer.push(token_id), piece):
                self.finish_reason = piece.finish_reason = FinishReason.STOP
                return piece
        if output.finish_reason is not None:
            self._show(self._detokenizer.flush(), piece)
            piece.text += self._stops.flush()
            self.finish_reason = piece.finish_reason = output.finish_reason
        return piece

    def _show(self, text: str, piece: Piece) -> bool:
        """Pass `text` on to the piece; returns whether a stop string ended it."""
        self._characters += len(text)
        shown, is_stopped = self._stops.push(text, may_stop=self.output_tokens > self._min_tokens)
        piece.text += shown
        return is_stopped
