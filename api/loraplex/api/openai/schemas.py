"""What is asked of /v1, on the wire."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StringConstraints, Tag, field_validator

from loraplex.api.schemas import WireModel

Role = Literal["system", "developer", "user", "assistant"]
ModelId = Annotated[str, StringConstraints(min_length=1, max_length=512)]
TokenId = Annotated[int, Field(ge=0, le=2**31 - 1)]
StopString = Annotated[str, StringConstraints(min_length=1, max_length=1024)]

# Tags in parentheses tell the members of a union apart; they never show in a `param`. Lists fail
# fast: a body of some megabytes must not become a finding for each of its items.


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
    | Annotated[
        list[TextPart], Field(min_length=1, max_length=1024, fail_fast=True), Tag("(list)")
    ],
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
        | Annotated[list[StopString], Field(max_length=4, fail_fast=True), Tag("(list)")],
        Discriminator(
            _string_or_list,
            custom_error_type="wrong_type",
            custom_error_message="a string or a list of strings",
        ),
    ] = []
    stop_token_ids: Annotated[list[TokenId], Field(max_length=64, fail_fast=True)] = []
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

    messages: Annotated[list[Message], Field(min_length=1, max_length=4096, fail_fast=True)]
    logprobs: bool = False
    max_completion_tokens: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    metadata: Annotated[dict[str, str], Field(max_length=16)] | None = None
    """Accepted and not kept."""
    modalities: Annotated[list[Literal["text"]], Field(max_length=8, fail_fast=True)] | None = None
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
        | Annotated[
            list[str], Field(min_length=1, max_length=128, fail_fast=True), Tag("(strings)")
        ]
        | Annotated[list[TokenId], Field(min_length=1, fail_fast=True), Tag("(tokens)")]
        | Annotated[
            list[Annotated[list[TokenId], Field(min_length=1, fail_fast=True)]],
            Field(min_length=1, max_length=128, fail_fast=True),
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
