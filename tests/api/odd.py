"""Values that trip programs up, put in one place of a request that is otherwise good."""

from typing import Any

from hypothesis import strategies as st
from schemathesis import Case

TEXTS = (
    "\0",
    "a\0b",
    "\uffff",
    "\U0010ffff",
    "e\u0301\u202e\u200b",
    "\ufdfd" * 50,
    "%00",
    "%2e%2e%2f",
    "..",
    "a/b",
    "' OR 1=1 --",
    " ",
    "0",
    "-1",
    "2147483648",
    "9223372036854775808",
    "1" * 500,
    "1e999",
    "NaN",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999+14:00",
    "null",
    "x" * 2000,
)
OTHERS: tuple[Any, ...] = (
    "",
    "x" * 100_000,
    2**31,
    2**63,
    -(2**63) - 1,
    10**300,
    10**4000,
    1e308,
    -0.0,
    0.5,
    True,
    [],
    ["\0"],
    {},
    {"\0": "\0"},
    {"$ref": "#/"},
)
HEADERS = (
    ("Idempotency-Key", "é"),
    ("Idempotency-Key", "x" * 300),
    ("If-Match", '"99999999999999999999"'),
    ("If-Match", "*"),
    ("If-Match", 'W/"1", "2"'),
    ("If-None-Match", "\xff"),
    ("Range", "bytes=9-1,-5"),
    ("Content-Type", "application/json; charset=utf-16"),
    ("Content-Type", "multipart/form-data; boundary="),
    ("Content-Type", "\xff/\xff;="),
    ("Accept", "image/png;q=nan"),
    ("Content-Encoding", "gzip"),
    ("User-Agent", "\xff" * 4000),
    ("x-request-id", "\xff" * 200),
    ("x-conversation-id", "é" * 200),
    ("traceparent", "00-zz-\xff-01"),
    ("Host", "\xff"),
    ("Origin", "http://[::1"),
    ("Cookie", "lpx_session=\xff; =;"),
    ("X-Forwarded-For", "\xff, 999.1.1.1"),
)
"""Latin-1, which is what a header's bytes are."""


@st.composite
def one_odd_value(draw: st.DrawFn, case: Case[Any]) -> dict[str, str]:
    """Replaces one of the case's values; headers to send besides."""
    places = [("header", "")]
    places += [("path", name) for name in case.path_parameters]
    places += [("query", parameter.name) for parameter in case.operation.query]
    if isinstance(case.body, dict):
        places += [("body", name) for name in case.body] * 2
    where, name = draw(st.sampled_from(places))
    if where == "header":
        return dict([draw(st.sampled_from(HEADERS))])
    if where == "body":
        # A new one: it may be an example of the description's.
        body: Any = case.body
        case.body = {**body, name: draw(st.sampled_from(TEXTS + OTHERS))}
    else:
        target: Any = case.path_parameters if where == "path" else case.query
        target[name] = draw(st.sampled_from(TEXTS))
    return {}
