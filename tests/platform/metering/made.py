"""Prices of tests."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

from loraplex.platform.metering.prices import FREE_PRICE_ID, NO_CURRENCY, Price

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


def made_price(
    input_rate: int = 0,
    cached_rate: int = 0,
    output_rate: int = 0,
    *,
    storage_rate: int = 0,
    price_id: UUID | None = None,
    base_model: str | None = None,
    is_tenants_own: bool = False,
    effective_from: datetime = BEGINNING,
    currency: str = "USD",
) -> Price:
    """Rates are micro-currency per million tokens, and per GiB-month."""
    return Price(
        id=uuid4() if price_id is None else price_id,
        base_model=base_model,
        is_tenants_own=is_tenants_own,
        input_micros_per_million=input_rate,
        cached_input_micros_per_million=cached_rate,
        output_micros_per_million=output_rate,
        storage_micros_per_gib_month=storage_rate if base_model is None else None,
        currency=currency,
        effective_from=effective_from,
    )


FREE = made_price(price_id=FREE_PRICE_ID, currency=NO_CURRENCY)
