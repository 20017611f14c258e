from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loraplex.api.text.stop_strings import StopStrings
from tests.soak import examples


def shown(pieces: Sequence[str], strings: Sequence[str]) -> tuple[str, bool]:
    """All that is shown of the pieces, and whether a stop string ended them."""
    stops = StopStrings(strings)
    text = ""
    for piece in pieces:
        now, is_stopped = stops.push(piece)
        text += now
        if is_stopped:
            return text, True
    return text + stops.flush(), False


@pytest.mark.parametrize(
    ("pieces", "strings", "text", "is_stopped"),
    [
        (["he", "llo"], ["lox"], "hello", False),
        (["ABC", "DEF", "GHIJ"], ["DEFGHIJ"], "ABC", True),
        (["ABC", "DEF", "GHI"], ["DEFGHIJ"], "ABCDEFGHI", False),
        (["one two three"], ["two"], "one ", True),
        (["ab", "ab", "abc"], ["ababc"], "ab", True),
        (["aaa", "aab"], ["aab"], "aaa", True),
        (["xabcd"], ["abcd", "bc"], "xa", True),
        (["xabc"], ["abc", "bc"], "x", True),
        (["stop at once"], ["s"], "", True),
        (["日本", "語"], ["本語"], "日", True),
        (["never"], [], "never", False),
    ],
)
def test_text_ends_before_the_stop_string(
    pieces: list[str], strings: list[str], text: str, is_stopped: bool
) -> None:
    assert shown(pieces, strings) == (text, is_stopped)


def test_nothing_is_held_back_that_cannot_become_a_stop_string() -> None:
    stops = StopStrings(["lox"])
    assert stops.push("hel") == ("he", False)
    assert stops.push("p") == ("lp", False)
    assert stops.push("lo") == ("", False)
    assert stops.flush() == "lo"


def test_a_stop_string_complete_before_its_time_is_shown() -> None:
    stops = StopStrings(["ab"])
    assert stops.push("ab", may_stop=False) == ("ab", False)
    assert stops.push("xa", may_stop=False) == ("x", False)
    assert stops.push("by") == ("", True)


text_of_few_letters = st.text(alphabet="ab🦜", max_size=24)
stop_strings = st.lists(st.text(alphabet="ab🦜", min_size=1, max_size=5), max_size=4)


def ends_first(text: str, strings: Sequence[str]) -> tuple[str, bool]:
    """What a reader sees who takes one character after another."""
    for end in range(1, len(text) + 1):
        found = [len(s) for s in strings if text[:end].endswith(s)]
        if found:
            return text[: end - max(found)], True
    return text, False


@given(text=text_of_few_letters, strings=stop_strings, data=st.data())
@settings(max_examples=examples(200, 20_000), deadline=None)
def test_the_shown_text_does_not_depend_on_how_it_was_cut(
    text: str, strings: list[str], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    bounds = [0, *cuts, len(text)]
    pieces = [text[start:end] for start, end in pairwise(bounds)]
    assert shown(pieces, strings) == ends_first(text, strings)


@given(text=text_of_few_letters, strings=stop_strings)
@settings(max_examples=examples(100, 5_000), deadline=None)
def test_what_was_shown_never_ends_with_the_begin_of_a_later_stop(
    text: str, strings: list[str]
) -> None:
    stops, seen = StopStrings(strings), ""
    for character in text:
        now, is_stopped = stops.push(character)
        seen += now
        final, _ = ends_first(text, strings)
        assert final.startswith(seen)
        if is_stopped:
            break
