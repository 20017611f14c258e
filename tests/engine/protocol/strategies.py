"""Any message of the protocol, for property tests."""

from hypothesis import strategies as st

from loraplex.engine.protocol.adapter import AdapterModule, AdapterRef, AdapterSpec, TensorRef
from loraplex.engine.protocol.generation import (
    FinalCounts,
    FinishReason,
    GenerationRequest,
    Priority,
    RequestFailure,
    RequestOutput,
    RequestTiming,
    TokenLogprob,
)
from loraplex.engine.protocol.identity import Digest, TenantNamespace
from loraplex.engine.protocol.messages import (
    Acknowledge,
    Cancel,
    EventMessage,
    GatewayMessage,
    Heartbeat,
    Hello,
    KeepAlive,
    Recount,
    Recounted,
    StepOutputs,
    Submit,
    Welcome,
    WorkerMessage,
)
from loraplex.engine.protocol.sampling import SamplingParams
from loraplex.engine.protocol.workers import (
    AdaptersInUse,
    ProcessUse,
    Role,
    WorkerLimits,
    WorkerLoad,
    WorkerRegistration,
)

TEXTS = st.text(max_size=20)
COUNTS = st.integers(0, 2**63 - 1)
TOKEN_IDS = st.integers(0, 2**31 - 1)
FLOATS = st.floats(allow_nan=False)
DIGESTS = st.binary(min_size=32, max_size=32).map(lambda raw: Digest(f"sha256:{raw.hex()}"))
DIGEST_LISTS = st.lists(DIGESTS, max_size=3).map(tuple)
NAMESPACES = TEXTS.map(TenantNamespace)

TENSORS = st.builds(
    TensorRef,
    name=TEXTS,
    dtype=st.sampled_from(["F32", "F16", "BF16"]),
    shape=st.tuples(st.integers(1, 2**20), st.integers(1, 2**20)),
    start=COUNTS,
    end=COUNTS,
)
MODULES = st.builds(
    AdapterModule,
    path=TEXTS,
    layer=st.integers(0, 200),
    linear=TEXTS,
    rank=st.integers(1, 512),
    scale=st.floats(allow_nan=False, allow_infinity=False),
    a=TENSORS,
    b=TENSORS,
)
SPECS = st.builds(
    AdapterSpec,
    digest=DIGESTS,
    base_digest=DIGESTS,
    weights_digest=DIGESTS,
    weights_bytes=COUNTS,
    modules=st.lists(MODULES, min_size=1, max_size=3).map(tuple),
)
ADAPTERS = st.builds(AdapterRef, spec=SPECS, namespace=NAMESPACES, url=TEXTS)
SAMPLING = st.builds(
    SamplingParams,
    max_tokens=COUNTS,
    min_tokens=COUNTS,
    temperature=FLOATS,
    top_p=FLOATS,
    top_k=COUNTS,
    min_p=FLOATS,
    seed=st.integers(0, 2**64 - 1),
    repetition_penalty=FLOATS,
    presence_penalty=FLOATS,
    frequency_penalty=FLOATS,
    logit_bias=st.dictionaries(TOKEN_IDS, FLOATS, max_size=5),
    stop_token_ids=st.lists(TOKEN_IDS, max_size=4).map(tuple),
    logprobs=st.none() | st.integers(0, 20),
)
REQUESTS = st.builds(
    GenerationRequest,
    request_id=TEXTS,
    namespace=NAMESPACES,
    prompt_token_ids=st.lists(TOKEN_IDS, max_size=20),
    sampling=SAMPLING,
    adapter=st.none() | ADAPTERS,
    priority=st.sampled_from(Priority),
    fair_weight=FLOATS,
    public_prefix_tokens=COUNTS,
    use_prefix_cache=st.booleans(),
    attempt=COUNTS,
)

LIMITS = st.builds(
    WorkerLimits,
    max_model_tokens=COUNTS,
    pool_tokens=COUNTS,
    block_tokens=COUNTS,
    page_bytes=COUNTS,
    pool_pages=COUNTS,
    max_running_requests=COUNTS,
)
LOADS = st.builds(
    WorkerLoad,
    running_requests=COUNTS,
    waiting_requests=COUNTS,
    free_pages=COUNTS,
    kv_pages=COUNTS,
    adapter_pages=COUNTS,
    resident_adapters=COUNTS,
    prompt_tokens=COUNTS,
    output_tokens=COUNTS,
    preemptions=COUNTS,
    adapter_loads=COUNTS,
    cached_tokens=COUNTS,
    cached_pages=COUNTS,
    stalls=COUNTS,
)
FAILURES = st.builds(
    RequestFailure,
    code=TEXTS,
    message=TEXTS,
    field=st.none() | TEXTS,
    rule=st.none() | TEXTS,
    value=st.none() | TEXTS | COUNTS | FLOATS,
    retry_after_seconds=st.none() | COUNTS,
)
LOGPROBS = st.builds(
    TokenLogprob, logprob=FLOATS, top=st.lists(st.tuples(TOKEN_IDS, FLOATS), max_size=3)
)
OUTPUTS = st.builds(
    RequestOutput,
    request_id=TEXTS,
    token_ids=st.lists(TOKEN_IDS, max_size=5),
    logprobs=st.none() | st.lists(LOGPROBS, max_size=5),
    output_tokens=COUNTS,
    cached_tokens=COUNTS,
    finish_reason=st.none() | st.sampled_from(FinishReason),
    stop_token_id=st.none() | TOKEN_IDS,
    failure=st.none() | FAILURES,
    timing=st.none()
    | st.builds(
        RequestTiming,
        queue_seconds=FLOATS,
        adapter_after_seconds=FLOATS,
        adapter_seconds=FLOATS,
        prefill_seconds=FLOATS,
    ),
)
REGISTRATIONS = st.builds(
    WorkerRegistration,
    worker_id=TEXTS,
    incarnation=TEXTS,
    protocol_version=COUNTS,
    pool=TEXTS,
    role=st.sampled_from(Role),
    base_name=TEXTS,
    base_digest=DIGESTS,
    requests_endpoint=TEXTS,
    events_endpoint=TEXTS,
    curve_public_key=TEXTS,
    process_id=COUNTS,
    limits=LIMITS,
)

GATEWAY_MESSAGES: st.SearchStrategy[GatewayMessage] = st.one_of(
    st.builds(Hello, protocol_version=COUNTS, gateway_id=TEXTS, incarnation=TEXTS),
    st.builds(Submit, incarnation=TEXTS, request=REQUESTS),
    st.builds(Cancel, incarnation=TEXTS, request_id=TEXTS),
    st.builds(KeepAlive, incarnation=TEXTS, request_ids=st.lists(TEXTS, max_size=5)),
    st.builds(Acknowledge, incarnation=TEXTS, request_ids=st.lists(TEXTS, max_size=5)),
    st.builds(Recount, incarnation=TEXTS, question=COUNTS, request_ids=st.lists(TEXTS, max_size=5)),
)
FINAL_COUNTS = st.builds(
    FinalCounts,
    request_id=TEXTS,
    attempt=COUNTS,
    prompt_tokens=COUNTS,
    cached_tokens=COUNTS,
    output_tokens=COUNTS,
    finish_reason=st.sampled_from(FinishReason),
)
WORKER_MESSAGES: st.SearchStrategy[WorkerMessage] = st.one_of(
    st.builds(
        Welcome, protocol_version=COUNTS, incarnation=TEXTS, base_digest=DIGESTS, limits=LIMITS
    ),
    st.builds(StepOutputs, incarnation=TEXTS, step=COUNTS, outputs=st.lists(OUTPUTS, max_size=3)),
    st.builds(
        Recounted,
        incarnation=TEXTS,
        question=COUNTS,
        ended=st.lists(FINAL_COUNTS, max_size=3),
        running=st.lists(TEXTS, max_size=3),
    ),
)
EVENT_MESSAGES: st.SearchStrategy[EventMessage] = st.builds(
    Heartbeat,
    incarnation=TEXTS,
    worker_id=TEXTS,
    step=COUNTS,
    step_running_seconds=FLOATS,
    load=LOADS,
    accepting=st.booleans(),
    adapters=st.builds(AdaptersInUse, running=DIGEST_LISTS, waiting=DIGEST_LISTS),
    process=st.none()
    | st.builds(
        ProcessUse,
        cpu_seconds=FLOATS,
        resident_bytes=COUNTS,
        open_files=COUNTS,
        started_at=FLOATS,
    ),
)
