"""CSV as an answer: streamed, complete or broken off, and harmless in a spreadsheet."""

import csv
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from io import StringIO
from typing import Any

from starlette.responses import StreamingResponse

from loraplex.api.schemas import WireModel

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


class CsvAnswer(StreamingResponse):
    """A file of blocks of lines. An error between two of them ends the connection without the
    answer's end, so that no client takes a part for the whole."""

    def __init__(self, blocks: AsyncIterator[str], filename: str) -> None:
        headers = {"Content-Disposition": f'attachment; filename="{filename}"'}
        super().__init__(blocks, media_type="text/csv; charset=utf-8", headers=headers)


def csv_answers(description: str) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that answers with a CSV file."""
    return {200: {"description": description, "content": {"text/csv": {"schema": TEXT}}}}


TEXT = {"type": "string"}


def lines(rows: Iterable[Sequence[object]]) -> str:
    """Rows as RFC 4180 has them."""
    text = StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([cell(value) for value in r] for r in rows)
    return text.getvalue()


def model_rows(models: Iterable[WireModel], columns: Sequence[str]) -> list[list[object]]:
    return [[getattr(model, name) for name in columns] for model in models]


def cell(value: object) -> object:
    """A value as a cell; a text that a spreadsheet would run as a formula gets a quote before."""
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return "" if value is None else value
