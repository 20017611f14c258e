"""One call to a receiver: what is sent, how it is signed, and what is kept of the answer."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from uuid import UUID

from loraplex.engine.protocol.errors import DomainError
from loraplex.platform.outbound.client import Answer, OutboundClient
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.webhooks.claims import Claim, Try
from loraplex.platform.webhooks.endpoints import SECRET_PURPOSE
from loraplex.platform.webhooks.signing import signed_headers

TIMEOUT_SECONDS = 15.0
KEPT_CHARACTERS = 2048
KEPT_BYTES = 4 * KEPT_CHARACTERS
"""No character has more bytes."""


def message_id(event_id: UUID) -> str:
    """What receivers tell messages apart by."""
    return f"msg_{event_id.hex}"


def body_of(claim: Claim) -> bytes:
    """The message, the same bytes at every try."""
    moment = claim.happened_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    message = {"type": claim.event_type, "timestamp": moment, "data": claim.data}
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


async def send(
    client: OutboundClient,
    secrets: SecretKeys,
    claim: Claim,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Try:
    """Call the endpoint once. A call that fails is an outcome too, with its reason."""
    started_at, started = now(), monotonic()

    def after(**what: object) -> Try:
        return Try(started_at, round(1000 * (monotonic() - started)), **what)  # type: ignore[arg-type]

    body = body_of(claim)
    try:
        opened = [secrets.decrypt(SECRET_PURPOSE, one).decode() for one in claim.sealed_secrets]
        headers = signed_headers(message_id(claim.event_id), started_at, body, opened)
        async with client.call(
            "POST",
            claim.url,
            seconds=TIMEOUT_SECONDS,
            headers=headers | {"content-type": "application/json"},
            content=body,
        ) as answer:
            return after(
                status_code=answer.status,
                response=text_of(await answer.head(KEPT_BYTES)),
                retry_after_seconds=retry_after_of(answer),
            )
    except DomainError as error:
        return after(error=error.message)


def text_of(head: bytes) -> str:
    """The reply's first characters; what is no text, or cannot be stored as such, is marked."""
    return head.decode(errors="replace").replace("\0", "\ufffd")[:KEPT_CHARACTERS]


def retry_after_of(answer: Answer) -> int | None:
    """Seconds the receiver asks to wait; its other form, a date, does not count."""
    told = answer.headers.get("retry-after", "")
    return int(told) if told.isascii() and told.isdecimal() and len(told) < 8 else None
