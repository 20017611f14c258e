"""Reads a multipart form of files as it arrives: to disk, and refused at the first thing wrong."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from loraplex.api.refusals import BodyTooLarge, InvalidForm, MissingParameter, UnknownParameter
from loraplex.api.validation import parameter_name

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

WRITE_BYTES = 1024 * 1024
"""Smaller writes stay on the event loop: they go to the page cache."""
MAX_HEADER_BYTES = 8192


@dataclass(frozen=True)
class FileLimit:
    """A file the form must have once, and how large it may be."""

    field: str
    limit_bytes: int


async def receive_form(
    request: Request, folder: Path, *choices: Sequence[FileLimit]
) -> dict[str, Path]:
    """Each field's file in `folder`, by field; the fields are all those of one of the choices.

    Raises InvalidForm, UnknownParameter, MissingParameter and BodyTooLarge, each as soon as it
    is known: what comes after is not read.
    """
    content_type, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary")
    if content_type != b"multipart/form-data" or not boundary:
        raise InvalidForm(
            "The body should be a multipart/form-data form.",
            field="Content-Type",
            rule="multipart/form-data with a boundary",
        )
    reader = _FormReader(folder, choices)
    parser = MultipartParser(boundary, reader.callbacks())
    try:
        async for data in request.stream():
            _parse(parser, data)
            if reader.buffered_bytes >= WRITE_BYTES:
                await asyncio.to_thread(reader.write)
        parser.finalize()
        await asyncio.to_thread(reader.write)
    except FormParserError:
        raise _malformed() from None
    finally:
        reader.close()
    return reader.finish()


def _parse(parser: MultipartParser, data: bytes) -> None:
    if parser.write(data) != len(data):
        raise _malformed()


def _malformed() -> InvalidForm:
    return InvalidForm("The multipart form is malformed or cut short.", rule="RFC 7578")


class _FormReader:
    """The parser's callbacks: sorts parts into files."""

    def __init__(self, folder: Path, choices: Sequence[Sequence[FileLimit]]) -> None:
        self._folder = folder
        self._choices = [[limit.field for limit in choice] for choice in choices]
        self._limits = {limit.field: limit.limit_bytes for choice in choices for limit in choice}
        self._sizes: dict[str, int] = {}
        self._files: dict[str, BinaryIO] = {}
        self._field: str | None = None
        self._header = [bytearray(), bytearray()]
        self._header_bytes = 0
        self._disposition = b""
        self._buffer: list[tuple[str, bytes]] = []
        self._ended = False
        self.buffered_bytes = 0

    def callbacks(self) -> "MultipartCallbacks":
        return {
            "on_part_begin": self._on_part_begin,
            "on_header_field": lambda data, start, end: self._on_header(0, data[start:end]),
            "on_header_value": lambda data, start, end: self._on_header(1, data[start:end]),
            "on_header_end": self._on_header_end,
            "on_headers_finished": self._on_headers_finished,
            "on_part_data": lambda data, start, end: self._on_data(data[start:end]),
            "on_end": self._on_end,
        }

    def write(self) -> None:
        """Put on disk what has come; blocks."""
        buffered, self._buffer, self.buffered_bytes = self._buffer, [], 0
        for field, data in buffered:
            if field not in self._files:
                self._files[field] = (self._folder / field).open("xb")
            self._files[field].write(data)

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def finish(self) -> dict[str, Path]:
        """The files; raises MissingParameter, and InvalidForm for a form without its end."""
        if not self._ended:
            raise _malformed()
        # What came says which of the choices is meant; nothing at all means the first.
        chosen = max(
            self._choices, key=lambda fields: sum(field in self._sizes for field in fields)
        )
        for field in chosen:
            if field not in self._sizes:
                raise MissingParameter(
                    f"The form field `{field}` is required.", field=field, rule="a file"
                )
            if self._sizes[field] == 0:
                (self._folder / field).touch()
        if extra := [field for field in self._sizes if field not in chosen]:
            raise InvalidForm(
                f"The form has `{extra[0]}` beside {', '.join(chosen)}.",
                field=extra[0],
                rule=" or ".join(", ".join(fields) for fields in self._choices),
            )
        return {field: self._folder / field for field in chosen}

    def _on_part_begin(self) -> None:
        self._field, self._disposition, self._header_bytes = None, b"", 0

    def _on_header(self, side: int, data: bytes) -> None:
        self._header_bytes += len(data)
        if self._header_bytes > MAX_HEADER_BYTES:
            raise InvalidForm(
                f"A part's headers have more than {MAX_HEADER_BYTES} bytes.",
                rule=f"at most {MAX_HEADER_BYTES} bytes",
            )
        self._header[side] += data

    def _on_header_end(self) -> None:
        name, value = map(bytes, self._header)
        self._header = [bytearray(), bytearray()]
        if name.lower() == b"content-disposition":
            self._disposition = value

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        field = options.get(b"name", b"").decode(errors="replace")
        if field not in self._limits:
            shown = parameter_name([field])
            known = ", ".join(self._limits)
            raise UnknownParameter(
                f"The form has a field {shown!r}; it should have {known}.",
                field=shown,
                rule=known,
            )
        if field in self._sizes:
            raise InvalidForm(f"The form has `{field}` twice.", field=field, rule="once")
        self._sizes[field] = 0
        self._field = field

    def _on_data(self, data: bytes) -> None:
        assert self._field is not None, "data comes after its part's headers"
        self._sizes[self._field] += len(data)
        if self._sizes[self._field] > self._limits[self._field]:
            raise BodyTooLarge(self._limits[self._field], field=self._field)
        self._buffer.append((self._field, data))
        self.buffered_bytes += len(data)

    def _on_end(self) -> None:
        self._ended = True
