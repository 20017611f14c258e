"""Requests and accounts without an engine."""

from loraplex.engine.protocol.generation import GenerationRequest, Priority
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.sampling import SamplingParams
from loraplex.engine.request import Request, new_request
from loraplex.engine.scheduler.accounts import Accounts


def waiting_request(
    accounts: Accounts,
    number: int,
    tenant: str,
    *,
    prompt_tokens: int = 1,
    output_tokens: int = 1,
    priority: Priority = Priority.STANDARD,
    weight: float = 1.0,
) -> Request:
    """A request that has arrived as the `number`-th, in nobody's line yet."""
    message = GenerationRequest(
        request_id=f"r{number}",
        namespace=TenantNamespace(tenant),
        prompt_token_ids=[1] * prompt_tokens,
        sampling=SamplingParams(max_tokens=output_tokens, temperature=0.0),
        priority=priority,
        fair_weight=weight,
    )
    account = accounts.arrive(message.namespace, weight)
    return new_request(message, number, account, 10, chain=None, most_pages=1)
