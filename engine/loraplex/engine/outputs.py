"""What a request is told: the token that a step gave it, or why it has ended."""

from loraplex.engine.protocol.errors import DomainError
from loraplex.engine.protocol.generation import FinishReason, RequestFailure, RequestOutput
from loraplex.engine.request import Request
from loraplex.engine.sampling.sampler import SampledToken


def accept(request: Request, sampled: SampledToken, is_last: bool) -> RequestOutput:
    """Append a sampled token; the output says whether the request ends with it.

    `is_last` says that it may have no more than this one.
    """
    token_id, logprob, sampling = sampled.token_id, sampled.logprob, request.sampling
    request.append(token_id)
    request.account.deliver_token()
    output_tokens = sampling.output_tokens
    is_stop = token_id in sampling.stop_token_ids
    finish_reason = FinishReason.STOP if is_stop else FinishReason.LENGTH if is_last else None
    return RequestOutput(
        request_id=request.request_id,
        token_ids=[token_id],
        logprobs=None if logprob is None else [logprob],
        output_tokens=output_tokens,
        cached_tokens=request.cached_tokens,
        finish_reason=finish_reason,
        stop_token_id=token_id if is_stop else None,
        timing=request.stamps.timing() if output_tokens == 1 else None,
    )


def cancelled(request: Request) -> RequestOutput:
    return _ended(request, FinishReason.CANCELLED, None)


def failed(request: Request, error: DomainError) -> RequestOutput:
    return _ended(request, FinishReason.ERROR, RequestFailure.of(error))


def _ended(request: Request, reason: FinishReason, failure: RequestFailure | None) -> RequestOutput:
    return RequestOutput(
        request_id=request.request_id,
        token_ids=[],
        output_tokens=request.output_tokens,
        cached_tokens=request.cached_tokens,
        finish_reason=reason,
        failure=failure,
    )
