"""What every route shares on the wire: problem+json, JSON of strict models, cursors."""

from pydantic import BaseModel, ConfigDict


class WireModel(BaseModel):
    """A body read from or sent to a client: exact types (no "1" for 1), no field ignored."""

    model_config = ConfigDict(
        extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Problem(WireModel):
    """A refusal outside /v1: RFC 9457 problem+json."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
    """Stable and machine-readable; `detail` may be reworded."""
    field: str | None = None
    rule: str | None = None
    value: str | int | float | None = None
