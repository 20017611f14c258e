"""Refusals of questions about usage, and of prices."""

from datetime import datetime

from loraplex.engine.protocol.errors import DomainError, Kind


class TooManyGroups(DomainError):
    """The answer would have more rows than one may have; none is left out silently."""

    kind, code = Kind.INVALID, "too_many_groups"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The answer would have more than {limit} rows: group by less, filter, or ask for "
            "fewer buckets.",
            field="group_by",
            rule=f"at most {limit} rows",
        )


class ExportTooLarge(DomainError):
    """An export has all rows or is none."""

    kind, code = Kind.INVALID, "export_too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"There are more than {limit} requests in this time: export a shorter one.",
            field="start",
            rule=f"at most {limit} rows",
        )


class InvalidPeriod(DomainError):
    """A period that ends before it begins, or does not consist of whole buckets."""

    kind, code = Kind.INVALID, "invalid_period"


class CurrencyMismatch(DomainError):
    """All prices of an installation are in one currency: sums of two would mean nothing."""

    kind, code = Kind.INVALID, "currency_mismatch"

    def __init__(self, currency: str, wanted: str) -> None:
        super().__init__(
            f"Prices here are in {currency}; sums of two currencies would mean nothing.",
            field="currency",
            rule=currency,
            value=wanted,
        )


class PriceDatedBack(DomainError):
    """A price for what has been used already."""

    kind, code = Kind.INVALID, "price_dated_back"

    def __init__(self, effective_from: datetime) -> None:
        super().__init__(
            "A price may begin now or later: what has been used keeps the price it had.",
            field="effective_from",
            rule="now or later",
            value=effective_from.isoformat(),
        )


class PriceExists(DomainError):
    """A price for the same tenant and model begins at the same moment."""

    kind, code = Kind.CONFLICT, "price_exists"

    def __init__(self) -> None:
        super().__init__(
            "Another price of the same tenant and base model begins at that moment.",
            field="effective_from",
            rule="one price a moment",
        )
