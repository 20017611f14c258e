"""What a request asks of its tenant's limits, and what admission answers."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from loraplex.engine.protocol.identity import Digest
from loraplex.platform.metering.prices import Price
from loraplex.platform.tenancy.identity import TenantId


class Payer(Protocol):
    """Whose limits and bill a request is on; every TenantPrincipal is one."""

    @property
    def tenant_id(self) -> TenantId: ...

    @property
    def key_id(self) -> UUID | None: ...

    @property
    def member_id(self) -> UUID | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a request may use at most, all its choices together.

    `model` is what the client asked for and `model_name` whose limits that means: the adapter's
    name, whatever the version, or the base's. Choice `i` is of prompt `i // choices_per_prompt`
    and runs as the sequence `<request>-i`.
    """

    model: str
    model_name: str
    base_model: str
    price: Price
    prompt_tokens: int
    max_output_tokens: int
    adapter_digest: Digest | None = None
    adapter_id: UUID | None = None
    adapter_version: int | None = None
    weights_digest: Digest | None = None
    """The adapter's bytes, which stay in the store while the request runs."""
    sequences: int = 1
    choices_per_prompt: int = 1

    @property
    def hold_micros(self) -> int:
        """What all of it costs at most: none of the prompt is cached."""
        return self.price.cost(self.prompt_tokens, 0, self.max_output_tokens)


@dataclass(frozen=True, slots=True)
class Window:
    """The tightest limit of one kind, of all subjects of a request.

    `kind` is `requests`, `tokens`, `prompt_tokens` or `output_tokens`. `reset_seconds` is when
    nothing that counts now will count any more.
    """

    kind: str
    limit: int
    remaining: int
    reset_seconds: float


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request's leave to run, by the database's clock."""

    admitted_at: datetime
    windows: tuple[Window, ...]
