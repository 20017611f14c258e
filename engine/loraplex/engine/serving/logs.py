"""A worker's log lines, JSON or plain. Of a request they tell its id, never its tokens."""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime

PLAIN = "%(asctime)s %(levelname)s %(name)s: %(message)s"
FORMAT_VARIABLE, LEVEL_VARIABLE = "LORAPLEX_LOG_FORMAT", "LORAPLEX_LOG_LEVEL"


class JsonFormatter(logging.Formatter):
    """A line an event, with the names that the platform's lines have."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "event": record.getMessage(),
            "logger": record.name,
            "level": record.levelname.lower(),
            "timestamp": datetime.fromtimestamp(record.created, UTC)
            .isoformat()
            .replace("+00:00", "Z"),
        }
        if (request_id := getattr(record, "request_id", None)) is not None:
            line["request_id"] = request_id
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure_worker_logging(environment: Mapping[str, str]) -> None:
    """Send every line to standard error, as the launcher's environment says."""
    handler = logging.StreamHandler()
    is_json = environment.get(FORMAT_VARIABLE) == "json"
    handler.setFormatter(JsonFormatter() if is_json else logging.Formatter(PLAIN))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(environment.get(LEVEL_VARIABLE, "INFO").upper())
