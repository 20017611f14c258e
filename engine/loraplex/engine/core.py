"""The engine: composes scheduler, memory, model and sampler, one step at a time."""

import logging
import threading

from loraplex.engine.adapter_source import AdapterSource
from loraplex.engine.execution.device import Device, open_device
from loraplex.engine.lora.loader import AdapterLoader
from loraplex.engine.lora.modules import ModuleNumbers
from loraplex.engine.memory.residency import AdapterResidency
from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.protocol.errors import DomainError, EngineFailure
from loraplex.engine.protocol.messages import (
    FinishReason,
    GenerationRequest,
    RequestFailure,
    RequestOutput,
    WorkerLimits,
    WorkerLoad,
)
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.request import Request, new_request
from loraplex.engine.sampling.sampler import SampledToken
from loraplex.engine.scheduler.admission import check_fits, check_tokens
from loraplex.engine.scheduler.assembly import AssembledStep
from loraplex.engine.scheduler.errors import DuplicateRequest
from loraplex.engine.scheduler.loads import AdapterLoads, Layouts
from loraplex.engine.scheduler.plan import StepPlan
from loraplex.engine.scheduler.scheduler import Scheduler

log = logging.getLogger(__name__)


class EngineCore:
    """One base model and its adapters on one device.

    `add`, `cancel` and `step` belong to one thread; `wake` and `load` may be called from any.
    Construction loads the model, which takes seconds, unless a device is handed in.
    """

    def __init__(
        self,
        config: EngineConfig,
        table: ModuleTable,
        adapters: AdapterSource,
        device: Device | None = None,
    ) -> None:
        device = device or open_device(config, table)
        self._table = table
        self._executor = device.executor
        self._geometry = device.geometry
        self._pool = device.pool
        self._has_news = threading.Event()
        self._residency = AdapterResidency(self._pool)
        self._loader = AdapterLoader(adapters, self._pool.data, self._has_news.set)
        numbers = ModuleNumbers(table)
        self._layouts = Layouts(numbers, self._geometry.page_elements, device.tile_rank)
        self._scheduler = Scheduler(
            self._geometry,
            self._residency,
            AdapterLoads(self._residency, self._loader, self._layouts, numbers.count),
            max_step_tokens=config.max_step_tokens,
            max_running_requests=config.max_running_requests,
        )
        self._limits = WorkerLimits(
            max_model_tokens=_least(table.max_model_tokens, config.max_model_tokens),
            pool_tokens=self._geometry.pool_tokens,
            block_tokens=config.block_tokens,
            page_bytes=self._geometry.page_elements * self._pool.data.itemsize,
            pool_pages=self._geometry.pages,
            max_running_requests=config.max_running_requests,
        )
        self._requests: dict[str, Request] = {}
        self._outputs: list[RequestOutput] = []
        self._arrivals = 0
        self._prompt_tokens = 0
        self._output_tokens = 0

    def add(self, request: GenerationRequest) -> None:
        """Take a request.

        Raises InvalidRequest, DuplicateRequest, PromptTooLong, AdapterTooLarge or
        AdapterUnavailable (the adapter was made for another base) where it can never run.
        """
        if request.request_id in self._requests:
            raise DuplicateRequest(f"The request {request.request_id} is already running.")
        check_tokens(request, self._table.vocabulary_size)
        layout = None if request.adapter is None else self._layouts.of(request.adapter.spec)
        check_fits(request, layout, self._geometry, self._limits.max_model_tokens)
        own = new_request(
            request, self._arrivals, self._geometry.block_tokens, self._table.vocabulary_size
        )
        self._arrivals += 1
        self._requests[request.request_id] = own
        self._scheduler.add(own)
        self._has_news.set()

    def cancel(self, request_id: str) -> None:
        """End a request; its pages are free at once, its last output comes with the next step."""
        request = self._requests.get(request_id)
        if request is not None:
            self._outputs.append(self._end(request, FinishReason.CANCELLED))
            self._has_news.set()

    def step(self) -> list[RequestOutput]:
        """Compute one step; the outputs of requests that got a token or ended."""
        self._has_news.clear()
        plan = self._scheduler.plan()
        outputs, self._outputs = self._outputs, []
        outputs += [self._fail(request, error) for request, error in plan.failed]
        if plan.grants:
            outputs += self._compute(plan)
        if (outputs or plan.grants) and self.has_work:
            # What has just ended may have made room. A step that did nothing would do nothing
            # again until somebody calls or a load ends.
            self._has_news.set()
        return outputs

    def wait_for_work(self, timeout_seconds: float) -> bool:
        """Block until a step would do something, or `wake` was called; False on timeout."""
        return self._has_news.wait(timeout_seconds)

    def wake(self) -> None:
        self._has_news.set()

    @property
    def has_work(self) -> bool:
        """Whether any request is live or has an output that was not handed out."""
        return bool(self._requests or self._outputs)

    def load(self) -> WorkerLoad:
        """The engine's state at this moment; from another thread a step's middle may be seen."""
        free_pages = self._pool.free_pages
        adapter_pages = self._residency.resident_pages
        return WorkerLoad(
            running_requests=len(self._scheduler.running),
            waiting_requests=self._scheduler.waiting_requests,
            free_pages=free_pages,
            kv_pages=self._geometry.pages - free_pages - adapter_pages,
            adapter_pages=adapter_pages,
            resident_adapters=self._residency.resident_adapters,
            prompt_tokens=self._prompt_tokens,
            output_tokens=self._output_tokens,
            preemptions=self._scheduler.preemptions,
            adapter_loads=self._residency.loads,
        )

    def limits(self) -> WorkerLimits:
        return self._limits

    def close(self) -> None:
        """Let the loader threads end."""
        self._loader.close()

    def check_integrity(self) -> None:
        """Assert that every page has exactly one owner and every count agrees; for tests."""
        entries = list(self._residency.entries.values())
        running = self._scheduler.running
        self._pool.check(
            [
                *(page for request in self._requests.values() for page in request.pages),
                *(page for entry in entries for page in entry.pages),
            ]
        )
        assert self._residency.resident_pages == sum(len(entry.pages) for entry in entries)
        assert self._residency.loads_in_flight == sum(entry.is_loading for entry in entries)
        for entry in entries:
            assert entry.users == sum(request.adapter is entry for request in running)
        assert len(running) + self._scheduler.waiting_requests == len(self._requests)
        assert all(not r.pages for r in self._requests.values() if r not in running)

    def _compute(self, plan: StepPlan) -> list[RequestOutput]:
        requests = list(plan.grants)
        try:
            pending = self._executor.submit(plan)
            outcomes = pending.outcomes()
        except Exception as error:  # whatever a step raises ends its own requests only
            log.exception("a step of %d requests failed", len(requests))
            failure = EngineFailure(f"A step of the engine failed: {type(error).__name__}.")
            return [self._fail(request, failure) for request in requests]
        self._count_computed(pending.step)
        return [
            self._accept(request, outcome)
            for request, outcome in zip(pending.step.sampled, outcomes, strict=True)
        ]

    def _count_computed(self, step: AssembledStep) -> None:
        for request, tokens in zip(step.requests, step.tokens, strict=True):
            if request.output_tokens == 0:
                self._prompt_tokens += tokens
            request.computed_tokens += tokens

    def _accept(self, request: Request, outcome: SampledToken | DomainError) -> RequestOutput:
        if isinstance(outcome, DomainError):
            return self._fail(request, outcome)
        token_id = outcome.token_id
        request.append(token_id)
        self._output_tokens += 1
        is_stop = token_id in request.sampling.stop_token_ids
        finish_reason = None
        if is_stop:
            finish_reason = FinishReason.STOP
        elif request.output_tokens == request.message.sampling.max_tokens:
            finish_reason = FinishReason.LENGTH
        if finish_reason is not None:
            self._forget(request)
        return RequestOutput(
            request_id=request.request_id,
            token_ids=[token_id],
            logprobs=None if outcome.logprob is None else [outcome.logprob],
            output_tokens=request.output_tokens,
            finish_reason=finish_reason,
            stop_token_id=token_id if is_stop else None,
        )

    def _fail(self, request: Request, error: DomainError) -> RequestOutput:
        return self._end(request, FinishReason.ERROR, RequestFailure.of(error))

    def _end(
        self, request: Request, reason: FinishReason, failure: RequestFailure | None = None
    ) -> RequestOutput:
        self._forget(request)
        return RequestOutput(
            request_id=request.request_id,
            token_ids=[],
            output_tokens=request.output_tokens,
            finish_reason=reason,
            failure=failure,
        )

    def _forget(self, request: Request) -> None:
        self._scheduler.end(request)
        self._requests.pop(request.request_id, None)


def _least(own: int, cap: int | None) -> int:
    return own if cap is None else min(own, cap)
