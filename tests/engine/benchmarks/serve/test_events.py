"""Events are the same however their bytes were cut."""

from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.benchmarks.serve.events import EventParser

ENDS = st.sampled_from(["\n", "\r\n", "\r"])
LINES = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=20)


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[str]]:
    """A stream with one kind of line end, and its events' data."""
    end = draw(ENDS)
    events = draw(st.lists(st.lists(LINES, min_size=1, max_size=3), max_size=5))
    text = draw(st.sampled_from(["", "\ufeff"]))
    for lines in events:
        for line in lines:
            text += draw(st.sampled_from(["", f": comment{end}", f"id: 7{end}", f"event: x{end}"]))
            space = " " if line.startswith(" ") else draw(st.sampled_from(["", " "]))
            text += f"data:{space}{line}{end}"
        text += end * draw(st.integers(1, 2))
    return text.encode(), ["\n".join(lines) for lines in events]


@given(streams(), st.data())
def test_any_cutting_of_the_bytes_gives_the_same_events(
    stream: tuple[bytes, list[str]], data: st.DataObject
) -> None:
    content, expected = stream
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=8)))
    parser = EventParser()
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True):
        found += parser.feed(content[start:end])
    assert found == expected


def test_what_no_blank_line_ends_is_no_event() -> None:
    parser = EventParser()
    assert parser.feed(b"data: {}\n") == []
    assert parser.feed(b"\n") == ["{}"]


def test_separators_inside_json_do_not_cut_a_line() -> None:
    text = '{"text":"a\u2028b\u0085c\x0bd"}'
    assert EventParser().feed(f"data: {text}\n\n".encode()) == [text]


def test_fields_without_data_make_no_event() -> None:
    assert EventParser().feed(b": keep-alive\n\nevent: ping\n\ndata\n\n") == [""]
