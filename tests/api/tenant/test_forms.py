from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.requests import Request

from loraplex.api.refusals import BodyTooLarge, InvalidForm, MissingParameter, UnknownParameter
from loraplex.api.tenant.forms import FileLimit, receive_form
from tests.soak import examples

WANTED = [FileLimit("config", 10), FileLimit("model", 1000)]
BOUNDARY = "xxBOUNDARYxx"


def part(name: str, data: bytes, *, filename: str | None = "f") -> bytes:
    file = f'; filename="{filename}"' if filename else ""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'
    return head.encode() + data + b"\r\n"


END = f"--{BOUNDARY}--\r\n".encode()


def request(chunks: list[bytes], content_type: str | None = None) -> Request:
    async def messages() -> AsyncIterator[dict[str, Any]]:
        for chunk in chunks:
            yield {"type": "http.request", "body": chunk, "more_body": True}
        yield {"type": "http.request", "body": b"", "more_body": False}

    stream = messages()
    kind = content_type or f"multipart/form-data; boundary={BOUNDARY}"
    headers = [(b"content-type", kind.encode())]
    return Request({"type": "http", "headers": headers}, lambda: anext(stream))


async def received(folder: Path, *chunks: bytes) -> dict[str, bytes]:
    files = await receive_form(request(list(chunks)), folder, WANTED)
    return {field: file.read_bytes() for field, file in files.items()}


@given(model=st.binary(max_size=300), cuts=st.sets(st.integers(0, 600)))
@settings(
    max_examples=examples(100, 5_000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
async def test_files_arrive_whole_however_the_body_is_cut(
    model: bytes, cuts: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    body = part("model", model) + part("config", b"{}", filename=None) + END
    bounds = sorted({0, *(cut for cut in cuts if cut < len(body)), len(body)})
    chunks = [body[start:end] for start, end in pairwise(bounds)]
    folder = tmp_path_factory.mktemp("form")
    assert await received(folder, *chunks) == {"config": b"{}", "model": model}


async def test_an_unknown_field_is_refused_by_name_before_the_rest_is_read(tmp_path: Path) -> None:
    with pytest.raises(UnknownParameter) as refused:
        await received(tmp_path, part("adaptor_model", b"x"), b"\xff" * 100)
    assert refused.value.field == "adaptor_model"


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingParameter) as refused:
        await received(tmp_path, part("config", b"{}") + END)
    assert refused.value.field == "model"


async def test_a_file_that_is_too_large_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(BodyTooLarge) as refused:
        await received(tmp_path, part("config", b"x" * 11), b"never read")
    assert refused.value.field == "config"


async def test_a_file_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidForm) as refused:
        await received(tmp_path, part("config", b"a") + part("config", b"b") + END)
    assert refused.value.field == "config"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no boundary at all",
        part("config", b"{}") + part("model", b"cut")[:-2],
        part("config", b"{}") + part("model", b"no end"),
        f"--{BOUNDARY}\r\n".encode() + b"A: " + b"b" * 10_000 + b"\r\n\r\n",
    ],
    ids=["empty", "no boundary", "cut short", "no end", "endless header"],
)
async def test_a_malformed_form_is_refused(body: bytes, tmp_path: Path) -> None:
    with pytest.raises(InvalidForm):
        await received(tmp_path, body)


@pytest.mark.parametrize(
    "kind", ["application/json", "multipart/form-data", "multipart/mixed; x=y"]
)
async def test_another_content_type_is_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidForm) as refused:
        await receive_form(request([b""], kind), tmp_path, WANTED)
    assert refused.value.field == "Content-Type"


@given(garbage=st.binary(max_size=200), after=st.integers(0, 120))
@settings(
    max_examples=examples(100, 5_000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
async def test_garbage_is_refused_and_never_breaks_the_reader(
    garbage: bytes, after: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    body = (part("config", b"{}") + part("model", b"abc") + END)[:after] + garbage
    with pytest.raises((InvalidForm, UnknownParameter, MissingParameter, BodyTooLarge)):
        await received(tmp_path_factory.mktemp("form"), body + b"\x00")
        raise InvalidForm("well-formed by luck")
