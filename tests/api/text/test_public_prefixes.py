"""How far a prompt agrees with what an operator has declared public."""

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
from loraplex.platform.public_prefixes import InvalidPublicPrefix

SUPPORT = "You answer questions about parcels. Be short, be kind, and never promise a date."
BILLING = "You answer questions about bills. Be short, be kind, and never promise money."


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
    known = PublicPrefixes({"support.txt": SUPPORT, "billing.txt": BILLING}, base_text)
    asked = prompt(base_text, SUPPORT, user)
    public = known.public_tokens(asked)
    assert public < len(asked)
    said = base_text._tokenizer.decode(asked[:public], skip_special_tokens=False)
    assert said.startswith(f"<|im_start|>system\n{SUPPORT}<|im_end|>\n<|im_start|>user")
    assert not said.endswith(user)


def test_what_nobody_declared_is_public_as_far_as_a_declared_text_says_the_same(
    base_text: BaseText,
) -> None:
    known = PublicPrefixes({"support.txt": SUPPORT}, base_text)
    declared = prompt(base_text, SUPPORT, "Hi")
    for system in ("Answer as a pirate would.", BILLING):
        asked = prompt(base_text, system, "Hi")
        assert known.public_tokens(asked) == agreeing(asked, declared) < len(asked) // 2


def test_with_nothing_declared_nothing_is_public(base_text: BaseText) -> None:
    assert PublicPrefixes({}, base_text).public_tokens(prompt(base_text, SUPPORT, "Hi")) == 0


@given(
    declared=st.lists(st.text("abc ", min_size=1, max_size=8), max_size=8),
    asked=st.text("abc ", max_size=8),
)
def test_no_declared_prefix_agrees_longer_than_the_one_that_is_found(
    declared: list[str], asked: str, base_text: BaseText
) -> None:
    known = PublicPrefixes({str(n): text for n, text in enumerate(declared)}, base_text)
    ids = prompt(base_text, asked, "word")
    assert known.public_tokens(ids) == max(
        (agreeing(ids, tokens) for tokens in known.tokens.values()), default=0
    )


def test_a_base_without_a_template_shares_the_text_itself(
    smollm2_dir: Path, tokenizer: Tokenizer
) -> None:
    plain = with_template(None, smollm2_dir, tokenizer)
    known = PublicPrefixes({"support.txt": SUPPORT}, plain)
    ids = plain.encode_text_now(SUPPORT)
    assert known.public_tokens(plain.encode_text_now(f"{SUPPORT}\nWhere?")) == len(ids)


def test_a_template_that_takes_no_system_message_is_named(
    smollm2_dir: Path, tokenizer: Tokenizer
) -> None:
    source = "{% if messages[0].role == 'system' %}{{ raise_exception('users only') }}{% endif %}"
    strict = with_template(source, smollm2_dir, tokenizer)
    with pytest.raises(InvalidPublicPrefix, match=r"support\.txt .* users only"):
        PublicPrefixes({"support.txt": SUPPORT}, strict)


def test_a_template_that_writes_the_date_is_rendered_anew_each_day(
    smollm2_dir: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = date(2026, 3, 9)
    monkeypatch.setattr(chat_template, "_strftime_now", lambda form: now.strftime(form))
    source = "{{ strftime_now('%d %b %Y') }}. {{ messages[0].content }}|{{ messages[1].content }}"
    dated = with_template(source, smollm2_dir, tokenizer)
    known = PublicPrefixes({"support.txt": SUPPORT}, dated, today=lambda: now)
    whole = known.public_tokens(prompt(dated, SUPPORT, "Hi"))
    assert not known.is_outdated

    now = date(2026, 3, 10)
    assert known.is_outdated
    assert known.public_tokens(prompt(dated, SUPPORT, "Hi")) < whole
    known.renew()
    assert not known.is_outdated
    assert known.public_tokens(prompt(dated, SUPPORT, "Hi")) == whole
