"""Logs: one line an event, JSON for machines or plain for people, never a secret.

Lines of libraries that log through `logging` come out in the same form. What a request binds with
`bind_request` stands in each of its lines.
"""

import logging
import re
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from uuid import UUID

import structlog
from structlog.contextvars import (
    bind_contextvars,
    get_contextvars,
    reset_contextvars,
    unbind_contextvars,
)
from structlog.types import Processor

from loraplex.platform.settings import Settings

REQUEST, TENANT, TRACE = "request_id", "tenant_id", "trace_id"
HIDDEN = "[hidden]"

SECRET_FIELDS = re.compile(
    # `token` only as the last word: `output_tokens` are a count.
    r"(^|_|-)((authorization|cookie|password|secret|api_?key|hash)s?($|_|-)|token$)",
    re.IGNORECASE,
)
SECRET_TEXT = re.compile(
    r"(?P<key>\blpx(?:admin)?_)[0-9A-Za-z]+"
    r"|(?P<bearer>\bBearer\s+)[^\s'\",]+"
    r"|(?P<url>://[^:/\s@]*:)[^@\s/]+(?=@)"
    r"|(?P<signature>X-Amz-(?:Signature|Credential)=)[^&\s]+",
    re.IGNORECASE,
)


def log_as_set(settings: Settings) -> None:
    """Log as the settings say."""
    is_json = None if settings.log_format == "auto" else settings.log_format == "json"
    configure_logging(json=is_json, level=settings.log_level)


def configure_logging(*, json: bool | None = None, level: str | int = "INFO") -> None:
    """Send every log line of this process to standard error.

    `json` None means JSON unless a person looks on (standard error is a terminal).
    """
    as_json = not sys.stderr.isatty() if json is None else json
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendering: list[Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.format_exc_info,
        hide_secrets,
        _renderer(as_json),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()], processors=rendering
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper() if isinstance(level, str) else level)


@contextmanager
def bind_request(request_id: str, trace_id: str | None = None) -> Iterator[None]:
    """Put what names a request into every line logged inside, by tasks begun there too."""
    fields = {REQUEST: request_id} if trace_id is None else {REQUEST: request_id, TRACE: trace_id}
    tokens = bind_contextvars(**fields)
    try:
        yield
    finally:
        reset_contextvars(**tokens)
        unbind_contextvars(TENANT)


def bind_tenant(tenant_id: UUID) -> None:
    """Put the tenant whom the request has proved to be into the rest of its lines."""
    bind_contextvars(**{TENANT: str(tenant_id)})


def bound_fields() -> dict[str, str | int | float | bool]:
    """What names the request that this task is in."""
    return {f"loraplex.{name}": str(value) for name, value in get_contextvars().items()}


def hide_secrets(
    _: object, __: str, event: MutableMapping[str, object]
) -> MutableMapping[str, object]:
    """Hide fields that are secrets by their name, and secrets inside any text."""
    for name, value in event.items():
        event[name] = HIDDEN if SECRET_FIELDS.search(name) else _without_secrets(value)
    return event


def _without_secrets(value: object) -> object:
    if isinstance(value, str):
        return SECRET_TEXT.sub(lambda match: f"{match[match.lastgroup or 0]}{HIDDEN}", value)
    if isinstance(value, Mapping):
        return dict(hide_secrets(None, "", {str(key): item for key, item in value.items()}))
    if isinstance(value, list | tuple | set | frozenset):
        return [_without_secrets(item) for item in value]
    if isinstance(value, bool | int | float | None):
        return value
    return _without_secrets(str(value))


def _renderer(as_json: bool) -> Processor:
    if as_json:
        return structlog.processors.JSONRenderer(sort_keys=False)
    return structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
