"""The engine: composes scheduler, memory, model and sampler, one step at a time."""

import logging
import threading
from collections.abc import Iterable
from itertools import islice

from loraplex.engine.adapter_source import AdapterSource
from loraplex.engine.execution.device import Device, open_device
from loraplex.engine.lora.loader import AdapterLoader
from loraplex.engine.lora.modules import ModuleNumbers
from loraplex.engine.memory.eviction import PageBudget
from loraplex.engine.memory.prefix_cache import PrefixCache
from loraplex.engine.memory.residency import AdapterKey, AdapterResidency, key_of
from loraplex.engine.memory.value import ValueScale
from loraplex.engine.outputs import accept, cancelled, failed
from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.protocol.errors import DomainError, EngineFailure
from loraplex.engine.protocol.generation import GenerationRequest, RequestOutput
from loraplex.engine.protocol.identity import Digest
from loraplex.engine.protocol.module_table import ModuleTable
from loraplex.engine.protocol.workers import TOLD_ADAPTERS, AdaptersInUse, WorkerLimits, WorkerLoad
from loraplex.engine.request import Request, RequestState, new_request
from loraplex.engine.sampling.sampler import SampledToken
from loraplex.engine.scheduler.admission import check_fits, check_request
from loraplex.engine.scheduler.assembly import AssembledStep
from loraplex.engine.scheduler.errors import DuplicateRequest
from loraplex.engine.scheduler.loads import AdapterLoads, Layouts
from loraplex.engine.scheduler.pins import Pins
from loraplex.engine.scheduler.plan import StepPlan
from loraplex.engine.scheduler.prefixes import PrefixSharing
from loraplex.engine.scheduler.room import Room
from loraplex.engine.scheduler.scheduler import Scheduler
from loraplex.engine.steps import FinishedStep, Steps

log = logging.getLogger(__name__)


class EngineCore:
    """One base model and its adapters on one device.

    `add`, `cancel`, `pin`, `unpin` and `step` belong to one thread; `wake` and `load` may be called
    from any. Construction loads the model, which takes seconds, unless a device is handed in.
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
        self._geometry = geometry = device.geometry
        self._pool = pool = device.pool
        self._steps = Steps(device.executor, device.steps_ahead)
        self._has_news = threading.Event()
        self._scale = ValueScale()
        self._residency = AdapterResidency(pool, self._scale)
        self._cache = PrefixCache(pool, self._scale)
        self._budget = PageBudget(pool, self._cache, self._residency)
        self._prefixes = PrefixSharing(
            self._cache,
            table.base_digest,
            config.block_tokens,
            is_enabled=device.shares_prefixes,
        )
        self._loader = AdapterLoader(
            adapters,
            pool.data,
            self._has_news.set,
            host_bytes=config.host_cache_bytes,
            base=device.base,
        )
        numbers = ModuleNumbers(table)
        self._layouts = Layouts(numbers, geometry.page_elements, device.tile_rank)
        room = Room(pool, self._cache, self._residency, self._budget)
        self._loads = AdapterLoads(
            room, self._residency, self._loader, self._layouts, numbers.count
        )
        self._scheduler = Scheduler(
            geometry,
            pool,
            self._residency,
            room,
            self._prefixes,
            self._loads,
            max_step_tokens=config.max_step_tokens,
            max_running_requests=config.max_running_requests,
        )
        self._limits = WorkerLimits(
            max_model_tokens=_least(table.max_model_tokens, config.max_model_tokens),
            pool_tokens=geometry.pool_tokens,
            block_tokens=config.block_tokens,
            page_bytes=geometry.page_elements * pool.data.itemsize,
            pool_pages=geometry.pages,
            max_running_requests=config.max_running_requests,
        )
        self._pins = Pins(self._residency, geometry, self._limits.max_model_tokens)
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
        check_request(request, self._table.vocabulary_size)
        layout = None if request.adapter is None else self._layouts.of(request.adapter)
        key = None if request.adapter is None else key_of(request.adapter)
        most_pages = check_fits(
            request,
            layout,
            self._geometry,
            self._pins.pages_beside(key),
            self._limits.max_model_tokens,
        )
        own = new_request(
            request,
            self._arrivals,
            self._scheduler.accounts.arrive(request.namespace, request.fair_weight),
            self._table.vocabulary_size,
            self._prefixes.chain(request),
            most_pages,
        )
        self._arrivals += 1
        self._requests[request.request_id] = own
        self._scheduler.add(own)
        self._has_news.set()

    def foretell(self, adapter: AdapterRef) -> None:
        """A request for this adapter may come soon: bring it near, beside the steps.

        Raises AdapterUnavailable where it was made for another base.
        """
        self._loads.foretell(adapter)

    def cancel(self, request_id: str) -> None:
        """End a request; its last output comes with the next step.

        Its pages are free at once, or when the step that computes it is over.
        """
        request = self._requests.get(request_id)
        if request is not None:
            self._forget(request)
            self._outputs.append(cancelled(request))
            self._has_news.set()

    def pin(self, ref: AdapterRef) -> None:
        """Keep an adapter once it is loaded, whatever room others need; its size counts at once.

        Raises PinLeavesNoRoom, or AdapterUnavailable where it was made for another base.
        """
        pages = self._layouts.of(ref).pages
        self._pins.pin(
            key_of(ref),
            pages,
            largest_adapter_pages=self._layouts.largest_pages,
            live=((one.adapter_key, one.most_pages) for one in self._requests.values()),
        )
        self._scheduler.pins_changed()

    def unpin(self, key: AdapterKey) -> None:
        """Let an adapter go like others; one that is not pinned is left alone."""
        self._pins.unpin(key)
        self._scheduler.pins_changed()
        self._has_news.set()

    def step(self) -> list[RequestOutput]:
        """Compute one step; the outputs of requests that got a token or ended.

        Where the device runs ahead, this submits a step before it reads the one before.
        """
        self._has_news.clear()
        was_ahead = self._steps.are_in_flight
        outputs, self._outputs = self._outputs, []
        if self._scheduler.must_settle:
            outputs += self._settle(self._steps.wait_for_all())
        plan = self._scheduler.plan()
        for request, error in plan.failed:
            outputs.append(self._fail(request, error))
        has_grants = plan.has_grants
        if has_grants:
            self._submit(plan, outputs)
        finished = self._steps.wait_for_excess() if has_grants else self._steps.wait_for_all()
        outputs += self._settle(finished)
        has_changed = bool(outputs or has_grants or plan.is_stalled or was_ahead)
        if self._steps.are_in_flight or (has_changed and self.has_work):
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
        cached_pages = self._cache.evictable_pages
        # Seen in a step's middle the counts may not add up yet.
        kv_pages = max(0, self._geometry.pages - free_pages - adapter_pages - cached_pages)
        return WorkerLoad(
            running_requests=len(self._scheduler.running),
            waiting_requests=self._scheduler.waiting_requests,
            free_pages=free_pages,
            kv_pages=kv_pages,
            adapter_pages=adapter_pages,
            resident_adapters=self._residency.resident_adapters,
            prompt_tokens=self._prompt_tokens,
            output_tokens=self._output_tokens,
            preemptions=self._scheduler.preemptions,
            adapter_loads=self._residency.loads,
            cached_tokens=self._scheduler.cached_tokens,
            cached_pages=cached_pages,
            stalls=self._scheduler.stalls,
            tiers=(self._residency.load(), *self._loader.tiers()),
        )

    def adapters_in_use(self) -> AdaptersInUse:
        """Whose requests run and wait at this moment; from any thread."""
        keys = [request.adapter_key for request in list(self._scheduler.running)]
        return AdaptersInUse(
            running=_some_digests(key for key in keys if key is not None),
            waiting=_some_digests(self._loads.line.keys()),
        )

    def limits(self) -> WorkerLimits:
        return self._limits

    def close(self) -> None:
        """Let the loader threads end, and wait a moment for them."""
        self._loader.close()

    def check_integrity(self) -> None:
        """Assert that every page has exactly one owner and every count agrees; for tests."""
        running, ending = self._scheduler.running, self._scheduler.ended_in_flight
        holders = [*running, *ending]
        self._budget.check(
            [page for request in holders for page in request.pages],
            [request.adapter.key for request in holders if request.adapter is not None],
        )
        assert len(running) + self._scheduler.waiting_requests == len(self._requests)
        assert all(not r.pages for r in self._requests.values() if r not in running)

    def _submit(self, plan: StepPlan, outputs: list[RequestOutput]) -> None:
        try:
            self._scheduler.begin(self._steps.submit(plan))
        except Exception as error:  # whatever a step raises ends its own requests only
            outputs += self._fail_step(plan.requests, error)

    def _settle(self, finished: Iterable[FinishedStep]) -> list[RequestOutput]:
        """Account for steps whose results are there."""
        outputs: list[RequestOutput] = []
        for one in finished:
            self._prompt_tokens += self._scheduler.settle(one.step, has_failed=bool(one.error))
            if one.error is not None:
                outputs += self._fail_step(one.step.requests, one.error)
                continue
            tokens = int(one.step.tokens.sum())
            self._scale.record_step(tokens / self._limits.block_tokens, one.seconds)
            outputs += self._accept(one.step, one.outcomes)
        return outputs

    def _accept(
        self, step: AssembledStep, outcomes: list[SampledToken | DomainError]
    ) -> list[RequestOutput]:
        """What a step has sampled for whom, of whom some may have ended meanwhile."""
        outputs: list[RequestOutput] = []
        ended = RequestState.ENDED
        for request, outcome, is_last in zip(
            step.sampled, outcomes, self._scheduler.accept(step, outcomes), strict=True
        ):
            if request.state is ended:
                continue
            if isinstance(outcome, DomainError):
                self._prefixes.distrust(request)
                output = self._fail(request, outcome)
            else:
                self._output_tokens += 1
                output = accept(request, outcome, is_last)
                if output.finish_reason is not None:
                    self._forget(request)
            outputs.append(output)
        return outputs

    def _fail_step(self, requests: list[Request], error: Exception) -> list[RequestOutput]:
        log.error("a step of %d requests failed", len(requests), exc_info=error)
        failure = EngineFailure(f"A step of the engine failed: {type(error).__name__}.")
        living = [request for request in requests if request.state is not RequestState.ENDED]
        return [self._fail(request, failure) for request in living]

    def _fail(self, request: Request, error: DomainError) -> RequestOutput:
        self._forget(request)
        return failed(request, error)

    def _forget(self, request: Request) -> None:
        self._scheduler.end(request)
        self._requests.pop(request.request_id, None)


def _some_digests(keys: Iterable[AdapterKey]) -> tuple[Digest, ...]:
    """Of different adapters, in order, as many as are told."""
    return tuple(islice(sorted({digest for _, digest in keys}), TOLD_ADAPTERS))


def _least(own: int, cap: int | None) -> int:
    return own if cap is None else min(own, cap)
