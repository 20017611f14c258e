"""If-Match and ETag over generations: a change says which state of the thing it is for."""

import re
from typing import Annotated

from fastapi import Header, Response

from loraplex.api.refusals import InvalidValue

IF_MATCH = "If-Match"
GENERATION = re.compile(r'"([1-9][0-9]{0,17})"')
RULE = 'one generation in quotes, such as "3"'

IfMatchHeader = Annotated[
    str | None,
    Header(alias=IF_MATCH, description="The ETag of the state that the change is for."),
]


def generation_of(if_match: str | None) -> int | None:
    """The generation that If-Match names, None without one; raises InvalidValue."""
    if if_match is None:
        return None
    match = GENERATION.fullmatch(if_match.strip())
    if match is None:
        raise InvalidValue(f"`If-Match` should be {RULE}.", field="If-Match", rule=RULE)
    return int(match[1])


def tell_generation(response: Response, generation: int | None) -> None:
    """Send the generation as ETag, where there is one."""
    if generation is not None:
        response.headers["ETag"] = f'"{generation}"'
