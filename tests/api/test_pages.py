import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.api.pages import page_of
from loraplex.api.refusals import InvalidValue


@given(names=st.lists(st.text(min_size=1), unique=True), limit=st.integers(1, 10))
def test_pages_put_together_are_the_list(names: list[str], limit: int) -> None:
    seen: list[str] = []
    cursor = None
    while True:
        page, cursor = page_of(names, str, limit, cursor)
        seen += page
        assert len(page) <= limit
        if cursor is None:
            break
    assert seen == names


def test_a_cursor_outlives_what_is_inserted_before_it() -> None:
    _, cursor = page_of(["b", "c", "d"], str, 1, None)
    assert page_of(["a", "b", "c", "d"], str, 1, cursor)[0] == ["c"]


@pytest.mark.parametrize("cursor", ["", "!", "YQ", "é", "////"])
def test_another_lists_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        page_of(["b"], str, 1, cursor)
    assert refused.value.field == "cursor"
