import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from loraplex.api.text.base_text import INLINE_CHARACTERS, BaseText
from loraplex.api.text.chat_template import ChatTemplate
from loraplex.api.text.errors import ConversationRefused, NoChatTemplate
from loraplex.api.text.token_bytes import TokenBytes

EXPECTED = json.loads((Path(__file__).parents[2] / "fixtures" / "expected.json").read_text("utf-8"))
ITEMS = [*EXPECTED["base"], *(item for one in EXPECTED["adapters"].values() for item in one)]


def ids_of(messages: Sequence[Mapping[str, Any]], base_text: BaseText) -> list[int]:
    return base_text.encode_rendered_now(base_text.render(messages))


@pytest.mark.parametrize("item", ITEMS, ids=range(len(ITEMS)))
def test_prompts_have_the_ids_that_peft_was_given(
    item: dict[str, Any], base_text: BaseText
) -> None:
    assert ids_of(item["messages"], base_text) == item["prompt_ids"]


async def test_a_long_conversation_has_the_ids_of_a_short_ones_way(base_text: BaseText) -> None:
    rendered = base_text.render([{"role": "user", "content": "word " * INLINE_CHARACTERS}])
    assert await base_text.encode_rendered(rendered) == base_text.encode_rendered_now(rendered)


@pytest.mark.parametrize("text", ["", "a", "word " * 50, "🦜" * 30, " " * 300, "日本語"])
def test_a_text_has_at_least_as_many_tokens_as_are_said_without_counting(
    text: str, base_text: BaseText
) -> None:
    assert base_text.least_tokens(text) <= len(base_text.encode_text_now(text))
    assert base_text.least_tokens(text * 1000) > 0 or not text


def test_a_developer_is_a_system_to_an_old_template(base_text: BaseText) -> None:
    asked = [{"role": "user", "content": "Hi"}]
    assert base_text.render(
        [{"role": "developer", "content": "Be brief."}, *asked]
    ) == base_text.render([{"role": "system", "content": "Be brief."}, *asked])


def test_a_template_may_refuse_in_its_own_words() -> None:
    template = ChatTemplate(
        "{% if messages[0].role != 'user' %}"
        "{{ raise_exception('a user speaks first') }}{% endif %}",
        {},
    )
    with pytest.raises(ConversationRefused, match="a user speaks first") as refused:
        template.render([{"role": "assistant", "content": "Hi"}])
    assert refused.value.field == "messages"


def test_a_template_that_breaks_refuses_the_conversation() -> None:
    template = ChatTemplate("{{ messages[0].content + 1 }}", {})
    with pytest.raises(ConversationRefused):
        template.render([{"role": "user", "content": "Hi"}])


def test_a_template_cannot_reach_python() -> None:
    template = ChatTemplate("{{ messages.__class__.__mro__ }}", {})
    with pytest.raises(ConversationRefused):
        template.render([{"role": "user", "content": "Hi"}])


def test_templates_have_what_transformers_gives_them() -> None:
    source = """{{ bos_token }}
{%- for message in messages %}
    {%- if loop.index0 == 1 %}{% break %}{% endif %}
    {%- generation %}{{ message | tojson }}{% endgeneration %}
{%- endfor %}
{{ strftime_now('%Y')[:2] }}{% if add_generation_prompt %}>{% endif %}"""
    template = ChatTemplate(source, {"bos_token": "<s>"})
    messages = [{"role": "user", "content": "<é>"}, {"role": "user", "content": "no"}]
    assert template.render(messages) == '<s>{"role": "user", "content": "<é>"}20>'


def test_conversations_with_a_model_that_holds_none_are_refused(
    base_text: BaseText, tokenizer: object
) -> None:
    tokens: TokenBytes = base_text.tokens
    without = BaseText(tokenizer, tokens, None)  # type: ignore[arg-type]
    with pytest.raises(NoChatTemplate):
        without.render([{"role": "user", "content": "Hi"}])


def test_a_template_is_found_wherever_models_keep_it(tmp_path: Path) -> None:
    assert ChatTemplate.load(tmp_path) is None
    config = {"chat_template": "{{ eos_token }}", "eos_token": {"content": "</s>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    template = ChatTemplate.load(tmp_path)
    assert template is not None
    assert template.render([]) == "</s>"
    (tmp_path / "chat_template.jinja").write_text("file")
    template = ChatTemplate.load(tmp_path)
    assert template is not None
    assert template.render([]) == "file"
