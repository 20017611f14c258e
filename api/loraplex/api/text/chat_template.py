"""Renders a conversation as the text a model was trained on, as Hugging Face's templates ask.

Templates come with models and are not trusted: they run in jinja2's immutable sandbox.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from loraplex.api.text.errors import ConversationRefused

SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token")


class GenerationBlock(Extension):
    """`{% generation %}` marks what a trainer masks; for rendering it is its body."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """A model's chat template with its special tokens."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = _strftime_now
        self._template = environment.from_string(source)
        self._special_tokens = dict(special_tokens)
        self._knows_developer = "developer" in source

    @classmethod
    def load(cls, model_dir: Path) -> "ChatTemplate | None":
        """The template of a Hugging Face directory; None when it has none."""
        config = _read_json(model_dir / "tokenizer_config.json")
        file = model_dir / "chat_template.jinja"
        source = file.read_text("utf-8") if file.is_file() else config.get("chat_template")
        if isinstance(source, list):  # several, by name
            source = {item["name"]: item["template"] for item in source}.get("default")
        if source is None:
            return None
        tokens = _read_json(model_dir / "special_tokens_map.json") | config
        return cls(
            source, {name: _content(tokens[name]) for name in SPECIAL_TOKENS if tokens.get(name)}
        )

    def render(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """The prompt that asks for the assistant's next turn; raises ConversationRefused.

        A `developer` is a `system` to templates made before there were developers.
        """
        if not self._knows_developer:
            messages = [
                {**message, "role": "system"} if message["role"] == "developer" else message
                for message in messages
            ]
        try:
            return self._template.render(
                messages=messages,
                tools=None,
                documents=None,
                add_generation_prompt=True,
                **self._special_tokens,
            )
        except (TemplateError, TypeError, ValueError, AttributeError) as error:
            reason = str(error) if isinstance(error, Refusal) else "it does not fit the template"
            raise ConversationRefused(
                f"The model's chat template refuses the conversation: {reason}.",
                field="messages",
                rule="what the chat template takes",
            ) from None


class Refusal(TemplateError):
    """What a template says by `raise_exception`."""


def _raise_exception(message: str) -> NoReturn:
    raise Refusal(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """jinja2's own filter escapes HTML, which no model was trained on."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _content(token: str | Mapping[str, Any]) -> str:
    return token if isinstance(token, str) else str(token["content"])


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    value: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return value
