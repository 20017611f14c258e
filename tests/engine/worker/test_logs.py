"""A worker's lines have the platform's form, and of a request its id."""

import json
import logging
from collections.abc import Iterator

import pytest

from loraplex.engine.serving.logs import configure_worker_logging


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_json_lines_name_the_request(capsys: pytest.CaptureFixture[str]) -> None:
    configure_worker_logging({"LORAPLEX_LOG_FORMAT": "json", "LORAPLEX_LOG_LEVEL": "warning"})
    log = logging.getLogger("worker")
    log.info("not told")
    log.warning("it is %s", "late", extra={"request_id": "r-1"})
    try:
        raise ValueError("no")
    except ValueError:
        log.exception("failed")
    late, failed = map(json.loads, capsys.readouterr().err.splitlines())
    assert late.pop("timestamp").endswith("Z")
    assert late == {
        "event": "it is late",
        "logger": "worker",
        "level": "warning",
        "request_id": "r-1",
    }
    assert "ValueError: no" in failed["exception"]


def test_plain_lines_are_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    configure_worker_logging({})
    logging.getLogger("worker").info("began")
    assert capsys.readouterr().err.endswith("INFO worker: began\n")
