"""Prices on the wire."""

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import AwareDatetime, Field, StringConstraints, model_validator

from loraplex.api.schemas import WireModel
from loraplex.api.usage_schemas import EARLIEST, LATEST, Name

Rate = Annotated[int, Field(ge=0, le=10**12)]


class NewPrice(WireModel):
    """Rates are integers of millionths of the currency."""

    tenant: Name | None = None
    """The tenant's name; everybody's price without one."""
    base_model: Name | None = None
    """Every model's price without one."""
    input_micros_per_million: Rate
    """For a million prompt tokens that were computed."""
    cached_input_micros_per_million: Rate
    """For a million prompt tokens that came from the cache; not more than the others."""
    output_micros_per_million: Rate
    """For a million output tokens."""
    storage_micros_per_gib_month: Rate | None = None
    """For a GiB of adapters kept 730 hours; of a price for every model alone, where it is 0 unless
    it is given."""
    currency: Annotated[str, StringConstraints(pattern="^[A-Z]{3}$")]
    """ISO 4217; the same for all prices of an installation."""
    effective_from: Annotated[AwareDatetime, Field(ge=EARLIEST, le=LATEST, strict=False)] | None = (
        None
    )
    """RFC 3339, now or later; now, unless it is given."""

    @model_validator(mode="after")
    def is_consistent(self) -> Self:
        if self.cached_input_micros_per_million > self.input_micros_per_million:
            raise ValueError("cached input at most as dear as other input")
        if self.base_model is not None and self.storage_micros_per_gib_month is not None:
            raise ValueError("storage priced without a base model, since it belongs to none")
        return self


class Price(WireModel):
    """A price applies to what is admitted from `effective_from` on, until a newer one does.

    Of several a tenant's own goes first, then a base model's, then the newest.
    """

    id: UUID
    tenant: str | None
    tenant_id: UUID | None
    base_model: str | None
    input_micros_per_million: int
    cached_input_micros_per_million: int
    output_micros_per_million: int
    storage_micros_per_gib_month: int | None
    currency: str
    effective_from: datetime
    created_at: datetime


class PriceList(WireModel):
    data: list[Price]
    next_cursor: str | None
