"""One generation call: admitted once, run as one sequence a choice, settled exactly once."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import structlog

from loraplex.adapters_registry.versions.views import ResolvedModel
from loraplex.api.openai.outcomes import code_of
from loraplex.api.text.choice_text import ChoiceText, Piece
from loraplex.engine.protocol.errors import DomainError, EngineFailure
from loraplex.engine.protocol.generation import FinishReason, GenerationRequest, RequestOutput
from loraplex.engine.protocol.tracing import SpanKind
from loraplex.platform.admission.demand import Admitted, Demand, Window
from loraplex.platform.metering.prices import Price
from loraplex.platform.metering.sequences import CallUsage, SequenceUsage, total
from loraplex.platform.metering.service import Usage
from loraplex.platform.pools.recounting import Placement
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.principals import TenantPrincipal

if TYPE_CHECKING:
    from loraplex.api.arrival import Arrival
    from loraplex.api.services import Services

log = structlog.get_logger(__name__)


@dataclass
class Choice:
    """One sequence of a call; `index` is its place in the answer, `prompt` the prompt's."""

    index: int
    prompt: int
    request: GenerationRequest
    text: ChoiceText
    cached_tokens: int = 0
    placement: Placement = field(default_factory=Placement)


@dataclass(frozen=True, slots=True)
class ChoicePiece:
    """What one step added to one choice."""

    index: int
    piece: Piece


class Call:
    """A request on its way: `begin`, then `pieces` to the end, then `end` however it went."""

    def __init__(
        self,
        services: "Services",
        principal: TenantPrincipal,
        *,
        arrival: "Arrival",
        model: str,
        resolved: ResolvedModel,
        choices: Sequence[Choice],
    ) -> None:
        self.request_id = arrival.request_id
        self.choices = choices
        self.windows: tuple[Window, ...] = ()
        """What is left of the tenant's rates, once the call has begun."""
        self._services = services
        self._principal = principal
        self._model = model
        self._resolved = resolved
        self._admission: asyncio.Task[Admitted] | None = None
        self._price: Price | None = None
        self._pieces: asyncio.Queue[ChoicePiece | BaseException] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._first: ChoicePiece | None = None
        self._settlement: asyncio.Task[None] | None = None
        self._clock = services.observation.clock(principal, resolved.base_name, arrival.at)

    @property
    def tenant_id(self) -> TenantId:
        return self._principal.tenant_id

    async def begin(self) -> None:
        """Admit and dispatch; returns when the first output is there.

        Raises the refusal or the failure that came instead: the answer still has no first byte.
        """
        self._services.draining.enter(self)
        try:
            self._services.fleet.check_room(self._resolved.base_name, len(self.choices))
            self._price = await self._services.prices.current(
                self._principal.tenant_id, self._resolved.base_name
            )
            self._admission = asyncio.create_task(
                self._services.admission.admit(
                    self._principal, self.request_id, self._demand(self._price)
                )
            )
            # A client that leaves now must not leave behind what Postgres has reserved already:
            # the settlement waits for the answer.
            with self._services.tracing.span("admit"):
                self.windows = (await asyncio.shield(self._admission)).windows
        except BaseException:
            self._services.draining.leave(self)
            raise
        self._tasks = [asyncio.create_task(self._run(choice)) for choice in self.choices]
        self._first = await self._next()

    async def pieces(self) -> AsyncGenerator[ChoicePiece, None]:
        """Every choice's pieces as they come, until all choices have finished.

        Raises the DomainError that ends the call early.
        """
        assert self._first is not None, "the call has begun"
        running = len(self.choices)
        piece = self._first
        while True:
            yield piece
            running -= piece.piece.finish_reason is not None
            if running == 0:
                return
            piece = await self._next()

    def abort(self, error: DomainError) -> None:
        """Make `begin` or `pieces` raise this error soon."""
        self._pieces.put_nowait(error)

    def end(self, outcome: str, failure: Exception | None = None) -> "asyncio.Task[None]":
        """Stop what still runs and settle, in a task of its own that shutdown waits for.

        `failure` is what ended it, if anything did.

        Only the first call counts; each returns the settlement.
        """
        if self._settlement is None:
            self._settlement = self._services.settlements.start(self._settle(outcome, failure))
        return self._settlement

    def usage(self) -> CallUsage:
        """Tokens of the whole call so far."""
        return total(
            SequenceUsage(
                choice.prompt,
                len(choice.request.prompt_token_ids),
                choice.cached_tokens,
                choice.text.output_tokens,
            )
            for choice in self.choices
        )

    def _demand(self, price: Price) -> Demand:
        """All that the call may use: its prompts as they are billed, each choice's whole answer."""
        served, spec = self._resolved, self._resolved.spec
        return Demand(
            model=self._model,
            model_name=served.adapter_name or served.base_name,
            base_model=served.base_name,
            price=price,
            prompt_tokens=self.usage().prompt_tokens,
            max_output_tokens=sum(one.request.sampling.max_tokens for one in self.choices),
            sequences=len(self.choices),
            choices_per_prompt=sum(one.prompt == 0 for one in self.choices),
            adapter_digest=None if spec is None else spec.digest,
            adapter_id=served.adapter_id,
            adapter_version=served.version,
            weights_digest=None if spec is None else spec.weights_digest,
        )

    async def _next(self) -> ChoicePiece:
        piece = await self._pieces.get()
        if isinstance(piece, BaseException):
            raise piece
        return piece

    async def _run(self, choice: Choice) -> None:
        try:
            await self._generate(choice)
        except Exception as error:
            self._pieces.put_nowait(error)

    async def _generate(self, choice: Choice) -> None:
        base_name, request = self._resolved.base_name, choice.request
        with self._services.tracing.span("generate", kind=SpanKind.CLIENT) as span:
            if span.traceparent is not None:
                span.set({"gen_ai.request.model": base_name, "loraplex.choice": choice.index})
                request = msgspec.structs.replace(request, traceparent=span.traceparent)
            outputs = self._services.fleet.generate(base_name, request, choice.placement)
            await self._take(choice, outputs)

    async def _take(self, choice: Choice, outputs: AsyncGenerator[RequestOutput, None]) -> None:
        """Hand on a sequence's pieces until it has finished."""
        # Leaving early, because a stop string ended the text, cancels the rest on the worker.
        async with aclosing(outputs):
            async for output in outputs:
                choice.cached_tokens = max(choice.cached_tokens, output.cached_tokens)
                if output.failure is not None:
                    raise output.failure.to_error()
                if output.finish_reason in (FinishReason.CANCELLED, FinishReason.ERROR):
                    break
                self._clock.see(choice.index, output)
                piece = choice.text.push(output)
                self._pieces.put_nowait(ChoicePiece(choice.index, piece))
                if piece.finish_reason is not None:
                    return
        raise EngineFailure("The worker ended the request before it was finished.")

    async def _settle(self, outcome: str, failure: Exception | None) -> None:
        with self._services.tracing.span("settle", attributes={"loraplex.outcome": outcome}):
            await self._settle_once(outcome, failure)

    async def _settle_once(self, outcome: str, failure: Exception | None) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._services.draining.leave(self)
        admitted = await self._admitted()
        if admitted is None or self._price is None:
            self._clock.refuse(failure)
            return
        used = self.usage()
        self._clock.finish(outcome, used.prompt_tokens, self.choices, failure)
        billed = used.billed
        served = self._resolved
        is_billed = await self._services.settlements.record(
            self._principal,
            Usage(
                request_id=self.request_id,
                model=self._model,
                price=self._price,
                base_model=served.base_name,
                adapter_digest=None if served.spec is None else served.spec.digest,
                adapter_id=served.adapter_id,
                adapter_version=served.version,
                prompt_tokens=billed.prompt_tokens,
                cached_tokens=billed.cached_tokens,
                output_tokens=billed.output_tokens,
                outcome=outcome,
                error_code=code_of(failure),
                admitted_at=admitted.admitted_at,
                worker_id=self.choices[0].placement.last_worker_id,
                queue_ms=self._clock.queue_ms,
                ttft_ms=self._clock.ttft_ms,
                duration_ms=self._clock.elapsed_ms,
            ),
        )
        if is_billed:
            self._services.fleet.acknowledge(
                {choice.request.request_id: choice.placement for choice in self.choices}
            )

    async def _admitted(self) -> Admitted | None:
        """What admission answered, if it let the call in."""
        if self._admission is None:
            return None
        [answer] = await asyncio.gather(self._admission, return_exceptions=True)
        return answer if isinstance(answer, Admitted) else None
