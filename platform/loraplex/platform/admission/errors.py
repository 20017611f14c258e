"""Refusals at the door: what a tenant, or one of its models, members or keys, may use."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from loraplex.engine.protocol.errors import DomainError, Kind
from loraplex.platform.admission.demand import Window

UNITS = {
    "requests_per_minute": "requests a minute",
    "tokens_per_minute": "tokens a minute",
    "prompt_tokens_per_minute": "prompt tokens a minute",
    "output_tokens_per_minute": "output tokens a minute",
    "max_concurrent_requests": "requests at once",
    "daily_budget_micros": "micro-units of money a day",
    "monthly_budget_micros": "micro-units of money a month",
}


class LimitRefusal(DomainError):
    """A limit is in the way. `dimension` is its name and `windows` what is left of rates."""

    sentence: ClassVar[str]

    def __init__(self, refusal: Mapping[str, object], windows: Sequence[Window] = ()) -> None:
        """`refusal` is what gateway.admit() answered."""
        self.subject = str(refusal["subject"])
        self.subject_id = str(refusal["subject_id"])
        self.dimension = str(refusal["dimension"])
        self.limit = int(str(refusal["limit"]))
        self.used = int(str(refusal["value"]))
        self.windows = tuple(windows)
        of_model = f" {self.subject_id!r}" if self.subject == "model" else ""
        super().__init__(
            self.sentence.format(
                subject=f"{self.subject}{of_model}",
                limit=self.limit,
                used=self.used,
                unit=UNITS[self.dimension],
            ),
            field=self.subject,
            rule=f"{self.dimension} of {self.limit}",
            value=self.used,
            retry_after_seconds=int(str(refusal["retry_after_seconds"])),
        )


class RateLimitExceeded(LimitRefusal):
    """So much was used of a rate that this request has to wait, or too many requests run."""

    kind, code = Kind.LIMITED, "rate_limit_exceeded"
    sentence = "This {subject} may use {limit} {unit}; {used} are used."


class BudgetRefusal(LimitRefusal):
    """What is left of a budget is less than this request may cost."""

    kind, code = Kind.LIMITED, "insufficient_quota"


class BudgetHeld(BudgetRefusal):
    """What is left of it is held by requests that run; they may leave enough of it."""

    sentence = "This {subject} may spend {limit} {unit}; {used} are spent or held by what runs."


class BudgetExhausted(BudgetRefusal):
    """Waiting does not help."""

    kind = Kind.EXHAUSTED
    sentence = "This {subject} may spend {limit} {unit}; {used} are spent."


class RequestExceedsLimit(LimitRefusal):
    """The request alone is larger than the limit: it could never be let in."""

    kind, code = Kind.INVALID, "request_exceeds_limit"
    sentence = "This {subject} may use {limit} {unit}; this request alone may use {used}."


class LimitAboveTenants(DomainError):
    """A key's or member's limit is above what the whole tenant may use."""

    kind, code = Kind.INVALID, "limit_above_tenants"

    def __init__(self, name: str, value: int, most: int) -> None:
        message = f"`{name}` is {value}; the tenant's own is {most}."
        super().__init__(message, field=name, rule=f"at most {most}", value=value)


REFUSALS: Mapping[str, type[LimitRefusal]] = {
    "rate": RateLimitExceeded,
    "concurrency": RateLimitExceeded,
    "budget_held": BudgetHeld,
    "budget_gone": BudgetExhausted,
    "never_fits": RequestExceedsLimit,
}
"""By the reason that gateway.admit() gives."""
