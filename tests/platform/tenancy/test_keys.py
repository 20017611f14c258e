import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.platform.tenancy.keys import ALPHABET, KeyKind, kind_of, label_of, new_key


@pytest.mark.parametrize("kind", list(KeyKind))
def test_a_new_key_is_recognised_as_its_kind(kind: KeyKind) -> None:
    key = new_key(kind)
    assert key.startswith(f"{kind}_")
    assert kind_of(key) is kind


def test_two_keys_are_never_alike() -> None:
    assert len({new_key(KeyKind.TENANT) for _ in range(100)}) == 100


@given(position=st.integers(4, 41), character=st.sampled_from(ALPHABET))
def test_one_wrong_character_is_noticed(position: int, character: str) -> None:
    key = new_key(KeyKind.TENANT)
    typo = key[:position] + character + key[position + 1 :]
    assert (kind_of(typo) is None) == (typo != key)


def test_a_tenants_key_does_not_become_an_operators_by_its_prefix() -> None:
    random_part = new_key(KeyKind.TENANT).removeprefix("lpx_")
    assert kind_of(f"lpxadmin_{random_part}") is None


@given(st.text(max_size=80))
def test_other_text_is_no_key(text: str) -> None:
    assert kind_of(text) is None


@pytest.mark.parametrize("surrounding", ["\n{}", "{}\n", " {}", "{} "])
def test_a_key_with_something_around_it_is_no_key(surrounding: str) -> None:
    assert kind_of(surrounding.format(new_key(KeyKind.TENANT))) is None


def test_a_label_shows_eight_characters_of_a_key() -> None:
    key = new_key(KeyKind.OPERATOR)
    label = label_of(key)
    assert label == f"{key[:13]}…{key[-4:]}"
