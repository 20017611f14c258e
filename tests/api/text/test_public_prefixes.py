"""How far a prompt agrees with what an operator has declared public."""

from collections.abc import Callable
from datetime import date
from itertools import takewhile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from loraplex.api.text import chat_template
from loraplex.api.text.base_text import BaseText
from loraplex.api.text.chat_template import ChatTemplate
from loraplex.api.text.public_prefixes import PublicPrefixes
from loraplex.api.text.token_bytes import TokenBytes
from loraplex.platform.public_prefixes.errors import InvalidPublicPrefix

SUPPORT = "You answer questions about parcels. Be short, be kind, and never promise a date."
BILLING = "You answer questions about bills. Be short, be kind, and never promise money."


def declared(
    texts: dict[str, str], base_text: BaseText, today: Callable[[], date] = date.today
) -> PublicPrefixes:
    known = PublicPrefixes(base_text, today)
    known.declare(texts)
    return known


def prompt(base_text: BaseText, system: str, user: str) -> list[int]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return base_text.encode_rendered_now(base_text.render(messages))


def agreeing(first: list[int], second: list[int]) -> int:
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def with_template(source: str | None, smollm2_dir: Path, tokenizer: Tokenizer) -> BaseText:
    tokens = TokenBytes.load(tokenizer, smollm2_dir / "tokenizer.json")
    return BaseText(tokenizer, tokens, None if source is None else ChatTemplate(source, {}))


@pytest.mark.parametrize("user", ["Hi", "7 parcels", "\nWhere?", "🦜", "A"])
def test_a_declared_system_message_is_public_up_to_the_users_words(
    base_text: BaseText, user: str
) -> None:
    known = declared({"support": SUPPORT, "billing": BILLING}, base_text)
    asked = prompt(base_text, SUPPORT, user)
    public = known.public_tokens(asked)
    assert public < len(asked)
    said = base_text._tokenizer.decode(asked[:public], skip_special_tokens=False)
    assert said.startswith(f"<|im_start|>system\n{SUPPORT}<|im_end|>\n<|im_start|>user")
    assert not said.endswith(user)


def test_what_nobody_declared_is_public_as_far_as_a_declared_text_says_the_same(
    base_text: BaseText,
) -> None:
    known = declared({"support": SUPPORT}, base_text)
    public = prompt(base_text, SUPPORT, "Hi")
    for system in ("Answer as a pirate would.", BILLING):
        asked = prompt(base_text, system, "Hi")
        assert known.public_tokens(asked) == agreeing(asked, public) < len(asked) // 2


def test_with_nothing_declared_nothing_is_public(base_text: BaseText) -> None:
    assert declared({}, base_text).public_tokens(prompt(base_text, SUPPORT, "Hi")) == 0


@given(
    texts=st.lists(st.text("abc ", min_size=1, max_size=8), max_size=8),
    asked=st.text("abc ", max_size=8),
)
def test_no_declared_prefix_agrees_longer_than_the_one_that_is_found(
    texts: list[str], asked: str, base_text: BaseText
) -> None:
    known = declared({str(n): text for n, text in enumerate(texts)}, base_text)
    ids = prompt(base_text, asked, "word")
    assert known.public_tokens(ids) == max(
        (agreeing(ids, tokens) for tokens in known.tokens.values()), default=0
    )


def test_a_base_without_a_template_shares_the_text_itself(
    smollm2_dir: Path, tokenizer: Tokenizer
) -> None:
    plain = with_template(None, smollm2_dir, tokenizer)
    known = declared({"support": SUPPORT}, plain)
    ids = plain.encode_text_now(SUPPORT)
    assert known.public_tokens(plain.encode_text_now(f"{SUPPORT}\nWhere?")) == len(ids)


def test_what_a_template_refuses_is_refused_and_left_out_where_it_is_declared_all_the_same(
    smollm2_dir: Path, tokenizer: Tokenizer
) -> None:
    source = "{% if messages[0].role == 'system' %}{{ raise_exception('users only') }}{% endif %}"
    strict = with_template(source, smollm2_dir, tokenizer)
    known = PublicPrefixes(strict)
    with pytest.raises(InvalidPublicPrefix, match="users only"):
        known.render(SUPPORT)
    known.declare({"support": SUPPORT})  # another gateway's base may take it
    assert known.tokens == {}


def test_a_template_that_writes_the_date_is_rendered_anew_each_day(
    smollm2_dir: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = date(2026, 3, 9)
    monkeypatch.setattr(chat_template, "_strftime_now", lambda form: now.strftime(form))
    source = "{{ strftime_now('%d %b %Y') }}. {{ messages[0].content }}|{{ messages[1].content }}"
    dated = with_template(source, smollm2_dir, tokenizer)
    known = declared({"support": SUPPORT}, dated, lambda: now)
    whole = known.public_tokens(prompt(dated, SUPPORT, "Hi"))
    assert not known.is_outdated

    now = date(2026, 3, 10)
    assert known.is_outdated
    assert known.public_tokens(prompt(dated, SUPPORT, "Hi")) < whole
    known.declare({"support": SUPPORT})
    assert not known.is_outdated
    assert known.public_tokens(prompt(dated, SUPPORT, "Hi")) == whole


def test_only_what_has_changed_is_rendered_anew(
    base_text: BaseText, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = declared({"support": SUPPORT, "billing": BILLING}, base_text)
    rendered: list[str] = []

    def render(text: str) -> list[int]:
        rendered.append(text)
        return [1]

    monkeypatch.setattr(known, "render", render)
    before = known.tokens
    known.declare({"support": SUPPORT, "billing": "Never promise money.", "new": "Be kind."})
    assert rendered == ["Never promise money.", "Be kind."]
    assert known.tokens["support"] is before["support"]
    known.declare({})
    assert known.tokens == {}
