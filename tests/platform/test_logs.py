import json
import logging
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
import structlog

from loraplex.platform.logs import HIDDEN, bind_request, bind_tenant, configure_logging
from loraplex.platform.tenancy.keys import KeyKind, new_key

SECRET = "hunter2hunter2"


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


class JsonLines:
    """What a test logs as JSON. Logging begins in the test itself: pytest gives it a stderr."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def begin(self) -> None:
        configure_logging(json=True)

    def read(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.capsys.readouterr().err.splitlines()]


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> JsonLines:
    return JsonLines(capsys)


def test_our_lines_and_libraries_lines_have_one_form(lines: JsonLines) -> None:
    lines.begin()
    structlog.get_logger("ours").info("began", tenant="acme")
    logging.getLogger("theirs").warning("it is %s", "late")
    ours, theirs = lines.read()
    assert (ours["event"], ours["level"], ours["logger"]) == ("began", "info", "ours")
    assert ours["tenant"] == "acme"
    assert (theirs["event"], theirs["level"], theirs["logger"]) == (
        "it is late",
        "warning",
        "theirs",
    )
    assert ours["timestamp"].endswith("Z")


def test_a_request_stands_in_each_of_its_lines_and_in_no_other(lines: JsonLines) -> None:
    lines.begin()
    tenant_id = uuid4()
    with bind_request("req-1", "trace-1"):
        structlog.get_logger().info("inside")
        bind_tenant(tenant_id)
        logging.getLogger("library").info("inside too")
    with bind_request("req-2"):
        structlog.get_logger().info("next")
    structlog.get_logger().info("outside")
    inside, inside_too, following, outside = lines.read()
    assert inside["request_id"] == inside_too["request_id"] == "req-1"
    assert inside["trace_id"] == inside_too["trace_id"] == "trace-1"
    assert inside_too["tenant_id"] == str(tenant_id)
    assert following["request_id"] == "req-2"
    assert not {"tenant_id", "trace_id"} & set(following)
    assert not {"request_id", "tenant_id", "trace_id"} & set(outside)


@pytest.mark.parametrize(
    "field",
    ["password", "api_key", "Authorization", "s3_secret_access_key", "worker_token", "cookies"],
)
def test_fields_named_as_secrets_are_hidden(lines: JsonLines, field: str) -> None:
    lines.begin()
    structlog.get_logger().info("event", **{field: SECRET})
    [line] = lines.read()
    assert line[field] == HIDDEN


@pytest.mark.parametrize("field", ["output_tokens", "prompt_tokens", "tokenizer", "keys"])
def test_fields_that_only_sound_like_secrets_are_shown(lines: JsonLines, field: str) -> None:
    lines.begin()
    structlog.get_logger().info("event", **{field: 7})
    [line] = lines.read()
    assert line[field] == 7


@pytest.mark.parametrize(
    "text",
    [
        f"header Authorization: Bearer {SECRET}",
        f"postgresql://loraplex_app:{SECRET}@127.0.0.1:5432/loraplex",
        f"redis://:{SECRET}@127.0.0.1/0",
        f"http://store/blob?X-Amz-Signature={SECRET}&X-Amz-Expires=60",
    ],
)
def test_secrets_inside_text_are_hidden_wherever_it_stands(lines: JsonLines, text: str) -> None:
    lines.begin()
    log = structlog.get_logger()
    log.info(text)
    log.info("nested", value={"a": [text]}, error=ValueError(text))
    logging.getLogger("library").info("said %s", text)
    try:
        raise RuntimeError(text)
    except RuntimeError:
        log.exception("failed")
    written = lines.read()
    assert SECRET not in json.dumps(written)
    assert len(written) == 4
    assert "RuntimeError" in written[3]["exception"]


@pytest.mark.parametrize("kind", list(KeyKind))
def test_an_api_key_is_hidden_but_recognisable(lines: JsonLines, kind: KeyKind) -> None:
    lines.begin()
    key = new_key(kind)
    structlog.get_logger().info("got " + key)
    [line] = lines.read()
    assert line["event"] == f"got {kind}_{HIDDEN}"


def test_people_get_plain_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging(json=False)
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        structlog.get_logger().exception("failed", tenant="acme")
    written = capsys.readouterr().err
    assert "failed" in written
    assert "tenant=acme" in written
    assert "RuntimeError: broken" in written
