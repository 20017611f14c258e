import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.adapters_registry.strict_json import JsonRefused, parse_strictly

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def parse(data: bytes, max_depth: int = 50, max_items: int = 1000) -> object:
    return parse_strictly(data, max_depth=max_depth, max_items=max_items)


@given(values)
def test_ordinary_json_reads_as_the_standard_library_reads_it(value: object) -> None:
    assert parse(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"a": 1, "a": 2}', "repeats the key 'a'"),
        (b'{"a": {"b": 1, "b": 1}}', "repeats the key 'b'"),
        (b"[[[[]]]]", "nests deeper than 3 levels"),
        (b"[1,2,3,4,5,6]", "more than 4 entries"),
        (b"[NaN]", "NaN"),
        (b"[-Infinity]", "-Infinity"),
        (b"[1e999]", "too large"),
        (b"[" + b"9" * 5000 + b"]", "too long"),
        (b"\xff\xfe", "UTF-8"),
        (b"", "not valid JSON"),
        (b'{"a": 1', "not valid JSON"),
        (b"{} {}", "not valid JSON"),
        (b'"unfinished', "not valid JSON"),
    ],
)
def test_what_breaks_a_bound_is_refused_by_name(data: bytes, words: str) -> None:
    with pytest.raises(JsonRefused, match=words.replace("[", r"\[")):
        parse(data, max_depth=3, max_items=4)


def test_brackets_and_commas_inside_strings_do_not_count() -> None:
    assert parse(b'["[[[[,,,,,,\\"]]]"]', max_depth=1, max_items=0) == ['[[[[,,,,,,"]]]']


@pytest.mark.parametrize(
    "data",
    [b"[" * 2**22, b'"' + b'\\"' * 2**21, b" " * 2**22, b'{"' + b'a",' * 2**20, b"," * 2**22],
    ids=["brackets", "escaped quotes", "blanks", "quotes", "commas"],
)
def test_megabytes_of_malice_cost_little_time(data: bytes) -> None:
    started = time.process_time()
    with pytest.raises(JsonRefused):
        parse(data)
    assert time.process_time() - started < 2
