"""How one engine is set up; travels to a worker as JSON on its command line's environment."""

import msgspec


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one engine.

    `model_dir` is a Hugging Face directory. `pool_bytes` is the one budget shared by KV blocks and
    adapters. `max_step_tokens` is a step's token budget (prefill chunks and decodes together).
    """

    model_dir: str
    base_name: str
    device: str = "auto"
    """`auto`, `cpu` or `cuda`."""
    compute_dtype: str = "auto"
    """`auto` is float32 on a CPU and bfloat16 on CUDA."""
    pool_bytes: int = 1536 * 1024 * 1024
    block_tokens: int = 16
    max_step_tokens: int = 512
    max_running_requests: int = 64
    max_model_tokens: int | None = None
    """A cap below the model's own context length; None for the model's own."""
    adapter_cache_dir: str
    """Where the node keeps adapter files it fetched, by digest."""
    adapter_cache_bytes: int = 4 * 1024 * 1024 * 1024
    host_cache_bytes: int = 512 * 1024 * 1024
    """Host memory for packed adapters, pinned on CUDA: what leaves the pool comes back from there
    without being read, hashed or packed again. 0 for none, but on CUDA loads go through some."""
    threads: int | None = None
