"""What an answer's headers tell of its tenant's rates, in OpenAI's names and forms."""

import math
from collections.abc import Iterable

from loraplex.platform.admission.demand import Window

SECONDS_PER_MINUTE = 60


def limit_headers(windows: Iterable[Window]) -> dict[str, str]:
    """`x-ratelimit-{limit,remaining,reset}-<kind>` of every kind that is limited."""
    headers = {}
    for window in windows:
        kind = window.kind.replace("_", "-")
        headers[f"x-ratelimit-limit-{kind}"] = str(window.limit)
        headers[f"x-ratelimit-remaining-{kind}"] = str(window.remaining)
        headers[f"x-ratelimit-reset-{kind}"] = _duration(window.reset_seconds)
    return headers


def _duration(seconds: float) -> str:
    minutes, rest = divmod(math.ceil(seconds), SECONDS_PER_MINUTE)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
