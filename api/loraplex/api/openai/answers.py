"""What /v1 answers with: pieces of choices as chat chunks, completion chunks and whole bodies."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from loraplex.api.openai.answer_schemas import (
    ChatLogprobs,
    CompletionLogprobs,
    PromptTokensDetails,
    TokenLogprob,
    TopLogprob,
    Usage,
)
from loraplex.api.text.choice_text import Piece, ShownToken
from loraplex.api.text.token_bytes import TokenBytes
from loraplex.engine.protocol.identity import Digest
from loraplex.platform.metering.sequences import CallUsage

FINGERPRINT_CHARACTERS = 12


@dataclass(slots=True)
class Gathered:
    """One choice's pieces so far, for an answer in one body."""

    text: str = ""
    tokens: list[ShownToken] = field(default_factory=list)
    finish_reason: str | None = None

    def add(self, piece: Piece) -> None:
        self.text += piece.text
        self.tokens += piece.tokens
        if piece.finish_reason is not None:
            self.finish_reason = piece.finish_reason.value


def usage_of(used: CallUsage) -> Usage:
    return Usage(
        prompt_tokens=used.prompt_tokens,
        completion_tokens=used.output_tokens,
        total_tokens=used.prompt_tokens + used.output_tokens,
        prompt_tokens_details=PromptTokensDetails(cached_tokens=used.cached_tokens),
    )


def fingerprint(base_digest: Digest) -> str:
    """Names the base model's files: it changes when they do."""
    return "fp_" + base_digest.removeprefix("sha256:")[:FINGERPRINT_CHARACTERS]


def chat_logprobs(shown: Iterable[ShownToken], tokens: TokenBytes) -> ChatLogprobs:
    return ChatLogprobs(
        content=[
            TokenLogprob(
                **_top(token.token_id, token.logprob.logprob, tokens).model_dump(),
                top_logprobs=[_top(other, value, tokens) for other, value in token.logprob.top],
            )
            for token in shown
        ]
    )


def completion_logprobs(
    shown: Sequence[ShownToken], tokens: TokenBytes, offset: int
) -> CompletionLogprobs:
    """`offset` is how many characters of prompt go before the text."""
    return CompletionLogprobs(
        tokens=[_name(token.token_id, tokens) for token in shown],
        token_logprobs=[token.logprob.logprob for token in shown],
        top_logprobs=[
            {_name(other, tokens): value for other, value in token.logprob.top}
            | {_name(token.token_id, tokens): token.logprob.logprob}
            for token in shown
        ],
        text_offset=[offset + token.text_offset for token in shown],
    )


def _top(token_id: int, logprob: float, tokens: TokenBytes) -> TopLogprob:
    data = tokens.of(token_id)
    return TopLogprob(token=data.decode(errors="replace"), logprob=logprob, bytes=list(data))


def _name(token_id: int, tokens: TokenBytes) -> str:
    """A token that is part of a character is named by its bytes, so that no two look alike."""
    data = tokens.of(token_id)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
