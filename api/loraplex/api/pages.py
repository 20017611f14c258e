"""The query parameters of every list: `limit` and `cursor`."""

from typing import Annotated

from fastapi import Depends, Query

from loraplex.platform.database.pages import (
    DEFAULT_LIMIT,
    MAX_CURSOR_CHARACTERS,
    MAX_LIMIT,
    PageRequest,
)


async def page_request(
    limit: Annotated[
        int, Query(ge=1, le=MAX_LIMIT, description="How many items at most.")
    ] = DEFAULT_LIMIT,
    cursor: Annotated[
        str | None,
        Query(max_length=MAX_CURSOR_CHARACTERS, description="`next_cursor` of the page before."),
    ] = None,
) -> PageRequest:
    return PageRequest(limit, cursor)


PageDep = Annotated[PageRequest, Depends(page_request)]
"""A list route's page, for a service to pass on to its Keyset."""
