"""What /v1 answers, on the wire."""

from typing import Literal

from loraplex.api.schemas import WireModel

FinishReason = Literal["stop", "length"]


class PromptTokensDetails(WireModel):
    cached_tokens: int


class Usage(WireModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


class TopLogprob(WireModel):
    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(TopLogprob):
    top_logprobs: list[TopLogprob]


class ChatLogprobs(WireModel):
    content: list[TokenLogprob]
    refusal: None = None


class ChatMessage(WireModel):
    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class ChatChoice(WireModel):
    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason


class ChatCompletion(WireModel):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    system_fingerprint: str


class ChatDelta(WireModel):
    role: Literal["assistant"] | None = None
    content: str | None = None


class ChatChunkChoice(WireModel):
    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason | None


class ChatChunk(WireModel):
    """One `data:` event of a streamed chat; `usage` only when asked for."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: Usage | None = None
    system_fingerprint: str


class CompletionLogprobs(WireModel):
    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class CompletionChoice(WireModel):
    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: FinishReason | None


class Completion(WireModel):
    """A completion, or one `data:` event of a streamed one."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None
    system_fingerprint: str


class Model(WireModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    parent: str | None = None
    """The base model of an adapter."""


class ModelList(WireModel):
    object: Literal["list"] = "list"
    data: list[Model]


class OpenAIErrorBody(WireModel):
    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(WireModel):
    """A refusal under /v1."""

    error: OpenAIErrorBody
