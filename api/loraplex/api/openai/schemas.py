"""The bodies of /v1 on the wire: what is asked and what is answered."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StringConstraints, Tag, field_validator

from loraplex.api.schemas import WireModel

Role = Literal["system", "developer", "user", "assistant"]
ModelId = Annotated[str, StringConstraints(min_length=1, max_length=512)]
TokenId = Annotated[int, Field(ge=0, le=2**31 - 1)]
StopString = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
FinishReason = Literal["stop", "length"]

# Tags in parentheses tell the members of a union apart; they never show in a `param`.


def _string_or_list(value: object) -> str | None:
    if isinstance(value, str):
        return "(string)"
    return "(list)" if isinstance(value, list) else None


def _kind_of_prompt(value: object) -> str | None:
    if isinstance(value, str):
        return "(string)"
    if not isinstance(value, list):
        return None
    first = value[0] if value else ""
    if isinstance(first, list):
        return "(token lists)"
    return "(tokens)" if isinstance(first, int) and not isinstance(first, bool) else "(strings)"


class TextPart(WireModel):
    """The one kind of content part a text model reads."""

    type: Literal["text"]
    text: str


Content = Annotated[
    Annotated[str, Tag("(string)")]
    | Annotated[list[TextPart], Field(min_length=1, max_length=1024), Tag("(list)")],
    Discriminator(
        _string_or_list,
        custom_error_type="wrong_type",
        custom_error_message="a string or a list of text parts",
    ),
]


class Message(WireModel):
    """A turn of the conversation."""

    role: Role
    content: Content
    name: Annotated[str, StringConstraints(max_length=256)] | None = None
    """Accepted, and given to chat templates that use it."""

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content)


class StreamOptions(WireModel):
    include_usage: bool = False
    include_obfuscation: Literal[False] = False


class TextFormat(WireModel):
    type: Literal["text"]


class GenerationBody(WireModel):
    """What chat and completions share. A null anywhere is the same as an absent field."""

    model: ModelId
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    ignore_eos: bool = False
    logit_bias: Annotated[
        dict[str, Annotated[float, Field(ge=-100, le=100)]], Field(max_length=1024)
    ] = {}
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0
    min_tokens: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    n: Annotated[int, Field(ge=1, le=16)] = 1
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] = 1.0
    seed: Annotated[int, Field(ge=-(2**63), le=2**63 - 1)] | None = None
    stop: Annotated[
        Annotated[StopString, Tag("(string)")]
        | Annotated[list[StopString], Field(max_length=4), Tag("(list)")],
        Discriminator(
            _string_or_list,
            custom_error_type="wrong_type",
            custom_error_message="a string or a list of strings",
        ),
    ] = []
    stop_token_ids: Annotated[list[TokenId], Field(max_length=64)] = []
    stream: bool = False
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_k: Annotated[int, Field(ge=-1, le=2**31 - 1)] = 0
    """0 and -1 both mean: no limit."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    user: str | None = None

    @property
    def stop_strings(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def wants_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage


class ChatBody(GenerationBody):
    """POST /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=4096)]
    logprobs: bool = False
    max_completion_tokens: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    metadata: Annotated[dict[str, str], Field(max_length=16)] | None = None
    """Accepted and not kept."""
    modalities: list[Literal["text"]] | None = None
    parallel_tool_calls: bool | None = None
    """Without tools it changes nothing."""
    prompt_cache_key: str | None = None
    """Accepted; what is cached for whom is never a client's choice."""
    response_format: TextFormat | None = None
    safety_identifier: str | None = None
    service_tier: Literal["auto", "default"] | None = None
    store: Literal[False] | None = None
    tool_choice: Literal["none", "auto"] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None


class CompletionBody(GenerationBody):
    """POST /v1/completions."""

    prompt: Annotated[
        Annotated[str, Tag("(string)")]
        | Annotated[list[str], Field(min_length=1, max_length=128), Tag("(strings)")]
        | Annotated[list[TokenId], Field(min_length=1), Tag("(tokens)")]
        | Annotated[
            list[Annotated[list[TokenId], Field(min_length=1)]],
            Field(min_length=1, max_length=128),
            Tag("(token lists)"),
        ],
        Discriminator(
            _kind_of_prompt,
            custom_error_type="wrong_type",
            custom_error_message="a string, strings, token ids, or lists of token ids",
        ),
    ]
    best_of: Annotated[int, Field(ge=1, le=16)] | None = None
    echo: bool = False
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=2**31 - 1)] = 16
    suffix: Literal[""] | None = None

    @field_validator("logprobs", mode="before")
    @classmethod
    def _false_is_absent(cls, value: Any) -> Any:
        # openai's own client types allow no bool here, but old ones send false for "none".
        return None if value is False else value


# Answers


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
