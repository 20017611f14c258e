"""What can ever run: checked once, when a request arrives."""

from math import inf

from loraplex.engine.lora.layout import AdapterLayout
from loraplex.engine.memory.geometry import PageGeometry
from loraplex.engine.protocol.errors import AdapterTooLarge, PromptTooLong
from loraplex.engine.protocol.generation import GenerationRequest
from loraplex.engine.scheduler.errors import InvalidRequest


def check_request(request: GenerationRequest, vocabulary_size: int) -> None:
    """Refuse numbers that mean nothing, and tokens that would fail the step of everybody in it."""
    if not request.prompt_token_ids:
        raise InvalidRequest("The prompt is empty.", field="prompt", rule="≥ 1 token", value=0)
    if request.sampling.max_tokens < 1:
        raise InvalidRequest(
            "At least one token must be asked for.",
            field="max_tokens",
            rule="≥ 1",
            value=request.sampling.max_tokens,
        )
    if not 0 < request.fair_weight < inf:
        raise InvalidRequest(
            "A weight is a positive number.",
            field="fair_weight",
            rule="0 < weight < ∞",
            value=request.fair_weight,
        )
    named = {
        "prompt": request.prompt_token_ids,
        "logit_bias": list(request.sampling.logit_bias),
        "stop_token_ids": list(request.sampling.stop_token_ids),
    }
    for field, ids in named.items():
        for token_id in (min(ids), max(ids)) if ids else ():
            if not 0 <= token_id < vocabulary_size:
                raise InvalidRequest(
                    f"The token {token_id} is not in the vocabulary of {vocabulary_size}.",
                    field=field,
                    rule=f"0 ≤ token < {vocabulary_size}",
                    value=token_id,
                )


def check_fits(
    request: GenerationRequest,
    layout: AdapterLayout | None,
    geometry: PageGeometry,
    pages: int,
    max_model_tokens: int,
) -> int:
    """Refuse what would not fit if it ran alone, naming what it needs and what there is.

    `pages` are those of the pool that are not pinned for other adapters. Returns how many the
    request and its adapter may need.
    """
    prompt, output = len(request.prompt_token_ids), request.sampling.max_tokens
    if prompt + output > max_model_tokens:
        raise PromptTooLong(
            f"{prompt} prompt tokens and {output} tokens asked for are {prompt + output}; "
            f"the model's context holds {max_model_tokens}.",
            field="max_tokens",
            rule=f"prompt + max_tokens ≤ {max_model_tokens}",
            value=prompt + output,
        )
    adapter_pages = 0 if layout is None else layout.pages
    if adapter_pages >= pages:
        raise AdapterTooLarge(
            f"The adapter needs {adapter_pages} pages beside at least one for tokens; "
            f"the pool has {pages}{_beside_pins(pages, geometry)}.",
            field="model",
            rule=f"at most {pages - 1} pages",
            value=adapter_pages,
        )
    room_tokens = (pages - adapter_pages) * geometry.block_tokens
    # The last token asked for is never computed, so it needs no place.
    if prompt + output - 1 > room_tokens:
        raise PromptTooLong(
            f"{prompt} prompt tokens and {output} tokens asked for are {prompt + output}; "
            f"the page pool has room for {room_tokens + 1}{_beside_pins(pages, geometry)}.",
            field="max_tokens",
            rule=f"prompt + max_tokens ≤ {room_tokens + 1}",
            value=prompt + output,
        )
    return adapter_pages + geometry.blocks_of(prompt + output - 1)


def _beside_pins(pages: int, geometry: PageGeometry) -> str:
    return "" if pages == geometry.pages else " beside pinned adapters"
