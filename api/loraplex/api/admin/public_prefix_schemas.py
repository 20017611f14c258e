"""Bodies of the routes that declare public prefixes."""

from datetime import datetime
from typing import Annotated

from pydantic import StringConstraints

from loraplex.api.schemas import WireModel
from loraplex.platform.public_prefixes.service import MAX_TEXT_BYTES


class PublicPrefixOrder(WireModel):
    text: Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT_BYTES)]
    """A whole system message, just as applications send it."""


class PublicPrefix(WireModel):
    """A system prompt whose KV all tenants share."""

    name: str
    size_bytes: int
    tokens: int | None
    """As the base model of the gateway that answers has it; null where its template refuses it."""
    declared_by: str
    declared_at: datetime


class PublicPrefixDetails(PublicPrefix):
    """With what it says."""

    text: str


class PublicPrefixList(WireModel):
    data: list[PublicPrefix]
    next_cursor: str | None
