"""What tokens cost: integers alone, rounded up once."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

TOKENS_PER_RATE: Final = 1_000_000
"""Rates are millionths of the currency for so many tokens."""
FREE_PRICE_ID: Final = UUID(int=0)
"""The price that costs nothing, everybody's for every model since ever."""
NO_CURRENCY: Final = "XXX"
"""ISO 4217's code for none: the free price's."""
GIB_MONTH_BYTE_SECONDS: Final = 2**30 * 730 * 3600
"""A month of storage has 730 hours, whichever month it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """One row of `prices`; rates are micro-currency per million tokens, storage per GiB-month.

    `base_model` None is every model's price, and only such a one has a price of storage.
    """

    id: UUID
    base_model: str | None
    is_tenants_own: bool
    input_micros_per_million: int
    cached_input_micros_per_million: int
    output_micros_per_million: int
    storage_micros_per_gib_month: int | None
    currency: str
    effective_from: datetime

    def cost(self, prompt_tokens: int, cached_tokens: int, output_tokens: int) -> int:
        """Micro-currency, rounded up once; `prompt_tokens` include `cached_tokens`.

        Each token is billed at one rate: cached ones at the cached rate, and there are never more
        of them than the prompt has. Raises ValueError for a negative count.
        """
        if min(prompt_tokens, cached_tokens, output_tokens) < 0:
            raise ValueError("tokens are counted from 0")
        cached = min(cached_tokens, prompt_tokens)
        millionths = (
            (prompt_tokens - cached) * self.input_micros_per_million
            + cached * self.cached_input_micros_per_million
            + output_tokens * self.output_micros_per_million
        )
        return -(-millionths // TOKENS_PER_RATE)

    def storage_cost(self, byte_seconds: int) -> int:
        """Micro-currency of a tenant's storage in one hour, rounded up once."""
        if byte_seconds < 0:
            raise ValueError("bytes and seconds are counted from 0")
        rate = self.storage_micros_per_gib_month
        assert rate is not None, "in_force without a model gives a price of storage"
        return -(-byte_seconds * rate // GIB_MONTH_BYTE_SECONDS)


def in_force(prices: Iterable[Price], base_model: str | None, now: datetime) -> Price:
    """Of what one tenant may see, the price that applies at `now`; of storage without a model.

    The tenant's own go before everybody's, then the model's before every model's, then the newest.
    """
    applying = (
        price
        for price in prices
        if price.effective_from <= now and price.base_model in (None, base_model)
    )
    return max(
        applying,
        key=lambda price: (
            price.is_tenants_own,
            price.base_model is not None,
            price.effective_from,
        ),
    )
