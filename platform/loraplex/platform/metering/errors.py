"""Refusals of questions about usage, and of prices."""

from datetime import datetime

from loraplex.engine.protocol.errors import DomainError, FixedRefusal, Kind


class TooManyGroups(DomainError):
    """The answer would have more rows than one may have; none is left out silently."""

    kind, code, field = Kind.INVALID, "too_many_groups", "group_by"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The answer would have more than {limit} rows: group by less, filter, or ask for "
            "fewer buckets.",
            rule=f"at most {limit} rows",
        )


class ExportTooLarge(DomainError):
    """An export has all rows or is none."""

    kind, code, field = Kind.INVALID, "export_too_large", "start"

    def __init__(self, limit: int) -> None:
        message = f"There are more than {limit} requests in this time: export a shorter one."
        super().__init__(message, rule=f"at most {limit} rows")


class InvalidPeriod(DomainError):
    """A period that ends before it begins, or does not consist of whole buckets."""

    kind, code = Kind.INVALID, "invalid_period"


class CurrencyMismatch(DomainError):
    """All prices of an installation are in one currency: sums of two would mean nothing."""

    kind, code, field = Kind.INVALID, "currency_mismatch", "currency"

    def __init__(self, currency: str, wanted: str) -> None:
        message = f"Prices here are in {currency}; sums of two currencies would mean nothing."
        super().__init__(message, rule=currency, value=wanted)


class PriceDatedBack(DomainError):
    """A price for what has been used already."""

    kind, code = Kind.INVALID, "price_dated_back"
    field, rule = "effective_from", "now or later"

    def __init__(self, effective_from: datetime) -> None:
        message = "A price may begin now or later: what has been used keeps the price it had."
        super().__init__(message, value=effective_from.isoformat())


class PriceExists(FixedRefusal):
    """A price for the same tenant and model begins at the same moment."""

    kind, code = Kind.CONFLICT, "price_exists"
    field, rule = "effective_from", "one price a moment"
    message = "Another price of the same tenant and base model begins at that moment."
