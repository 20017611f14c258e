"""Makes a call of a validated body: resolves the model, fits the prompts, plans the choices."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from starlette.requests import Request

from loraplex.adapters_registry.versions.names import canonical_name
from loraplex.adapters_registry.versions.views import ResolvedModel
from loraplex.api.arrival import Arrival
from loraplex.api.openai.call import Call, Choice
from loraplex.api.openai.limits import context_of, fit, room_of
from loraplex.api.openai.parameters import check_sequences, sampling_of, seed_of_choice
from loraplex.api.openai.prompts import Prompt, PromptReader
from loraplex.api.openai.schemas import GenerationBody
from loraplex.api.served import pin
from loraplex.api.services import Services
from loraplex.api.text.choice_text import ChoiceText
from loraplex.engine.protocol.generation import GenerationRequest
from loraplex.platform.tenancy.principals import TenantPrincipal

CONVERSATION_HEADER = "x-conversation-id"


@dataclass(frozen=True)
class Wish:
    """What a route wants generated, beyond what every body says."""

    prompts: Sequence[Prompt]
    max_tokens: int | None
    max_tokens_field: str
    logprobs: int | None
    continues: bool
    """Whether the answer goes on in the prompt's own text, rather than begin a turn."""


async def resolve(
    request: Request,
    services: Services,
    principal: TenantPrincipal,
    body: GenerationBody,
    request_id: str,
) -> ResolvedModel:
    """The one version that `model` means for all of this request; raises ModelNotFound.

    Whatever the answer becomes from here on, its `x-adapter-version` tells which one it was. A
    worker is told of its adapter at once, so that it comes nearer while the prompt is read.
    """
    resolved = services.catalogue.remembered_base(principal, body.model)
    if resolved is None:
        sticky_key = conversation_of(request, body, request_id)
        async with services.database.unit_of_work(principal.tenant_id) as session:
            resolved = await services.catalogue.resolve(
                session, principal, body.model, sticky_key=sticky_key
            )
    services.adapter_refs.foretell(principal, resolved)
    pin(request, served_version(principal, resolved))
    return resolved


def conversation_of(request: Request, body: GenerationBody, request_id: str) -> str:
    """What a rollout keeps to one version: the conversation, else the user, else the request."""
    if conversation := request.headers.get(CONVERSATION_HEADER):
        return f"conversation/{conversation}"
    return f"user/{body.user}" if body.user else f"request/{request_id}"


def prompt_reader(services: Services, resolved: ResolvedModel) -> PromptReader:
    """Reads prompts for the model as large as its largest worker takes now."""
    limits = services.fleet.limits(resolved.base_name)
    return PromptReader(
        services.text, services.table.vocabulary_size, context_of(services.table, limits)
    )


def prepare(
    services: Services,
    principal: TenantPrincipal,
    body: GenerationBody,
    resolved: ResolvedModel,
    arrival: Arrival,
    wish: Wish,
) -> Call:
    """The call that a body asks for, not yet begun.

    Raises PromptTooLong and InvalidValue: everything that a client can put right.
    """
    check_sequences(len(wish.prompts), body.n)
    limits = services.fleet.limits(resolved.base_name)
    context_tokens = context_of(services.table, limits)
    room_tokens = room_of(resolved.spec, limits, context_tokens)
    adapter = services.adapter_refs.of(principal, resolved)
    priority = services.slo_choices.class_of(principal).priority
    fair_weight = services.slo_choices.class_of_tenant(principal).fair_weight
    choices = []
    for place, prompt in enumerate(wish.prompts):
        max_tokens = fit(
            len(prompt.token_ids),
            wish.max_tokens,
            room_tokens,
            context_tokens,
            wish.max_tokens_field,
        )
        sampling = sampling_of(
            body, max_tokens=max_tokens, logprobs=wish.logprobs, table=services.table
        )
        # The engine keeps the tenant in the keys of whatever an adapter computes.
        public_tokens = (
            services.public_prefixes.public_tokens(prompt.token_ids) if adapter is None else 0
        )
        for number in range(body.n):
            index = place * body.n + number
            seed = seed_of_choice(sampling.seed, number)
            request = GenerationRequest(
                request_id=f"{arrival.request_id}-{index}",
                namespace=principal.namespace,
                prompt_token_ids=prompt.token_ids,
                sampling=msgspec.structs.replace(sampling, seed=seed),
                adapter=adapter,
                priority=priority,
                fair_weight=fair_weight,
                public_prefix_tokens=public_tokens,
            )
            text = ChoiceText(
                services.text.tokens,
                stop_strings=body.stop_strings,
                min_tokens=body.min_tokens,
                continues=wish.continues,
            )
            choices.append(Choice(index, place, request, text))
    return Call(
        services,
        principal,
        arrival=arrival,
        model=body.model,
        resolved=resolved,
        choices=choices,
    )


def served_version(principal: TenantPrincipal, resolved: ResolvedModel) -> str:
    """What the `x-adapter-version` header tells: the pinned version, or the base itself."""
    if resolved.adapter_name is None:
        return resolved.id
    return canonical_name(principal.tenant_name, resolved.adapter_name, resolved.version)
