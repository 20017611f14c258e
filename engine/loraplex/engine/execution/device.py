"""Opens the device a configuration names: a model on it, its page pool, and who runs steps."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from loraplex.engine.execution.cuda_device import CudaDevice
from loraplex.engine.execution.cuda_executor import STEPS_AHEAD, GraphExecutor
from loraplex.engine.execution.eager import EagerExecutor
from loraplex.engine.execution.executor import Executor
from loraplex.engine.kernels.ops import kernels
from loraplex.engine.lora.gains import BaseLinears
from loraplex.engine.lora.layout import tile_rank
from loraplex.engine.lora.modules import ModuleNumbers
from loraplex.engine.memory.geometry import PageGeometry, fit_pages
from loraplex.engine.memory.pool import PagePool
from loraplex.engine.models.decoder import Decoder
from loraplex.engine.models.registry import read_decoder_config
from loraplex.engine.models.weights import open_weights
from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.protocol.module_table import ModuleTable

_DTYPES: Final = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


@dataclass(frozen=True)
class Device:
    """`tile_rank` is the most ranks a tile of an adapter may have in this pool's pages.

    `shares_prefixes` is false where a token's keys and values depend on more than what stands
    before it. `steps_ahead` steps may be submitted before the one before them has been read.
    `base` are the weights that adapters of some kinds are worked out against when they are loaded.
    """

    executor: Executor
    geometry: PageGeometry
    pool: PagePool
    tile_rank: int
    shares_prefixes: bool = True
    steps_ahead: int = 0
    base: BaseLinears | None = None


def open_device(config: EngineConfig, table: ModuleTable) -> Device:
    """Load the model, which takes seconds. Raises UnsupportedModel or PoolTooSmall."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    device = _device(config.device)
    dtype = _dtype(config.compute_dtype, device)
    decoder_config = read_decoder_config(Path(config.model_dir))
    geometry = fit_pages(
        config.pool_bytes,
        layers=decoder_config.shape.layers,
        block_tokens=config.block_tokens,
        kv_heads=decoder_config.shape.kv_heads,
        head_size=decoder_config.shape.head_size,
        dtype=dtype,
    )
    ranks = tile_rank(geometry.page_elements, ModuleNumbers(table).widest)
    with open_weights(Path(config.model_dir)) as weights:
        model = Decoder(
            decoder_config,
            weights,
            kernels(),
            block_tokens=config.block_tokens,
            dtype=dtype,
            device=device,
        )
    pool = PagePool(geometry.pages, geometry.page_elements, dtype, device)
    executor, steps_ahead = _executor(model, pool, geometry, ranks, config, table)
    return Device(
        executor,
        geometry,
        pool,
        ranks,
        # Dynamic scaling turns keys by the length of the prompt they belong to.
        shares_prefixes=decoder_config.rope.kind != "dynamic",
        steps_ahead=steps_ahead,
        base=model.base_linears(),
    )


def _executor(
    model: Decoder,
    pool: PagePool,
    geometry: PageGeometry,
    ranks: int,
    config: EngineConfig,
    table: ModuleTable,
) -> tuple[Executor, int]:
    """Who runs steps on this device, and how many it may be ahead."""
    if pool.data.device.type != "cuda":
        return EagerExecutor(model, pool, geometry, ranks), 0
    executor = GraphExecutor(
        CudaDevice(pool.data.device),
        model,
        pool,
        geometry,
        ranks,
        max_sequences=config.max_running_requests,
        max_tokens=min(table.max_model_tokens, config.max_model_tokens or table.max_model_tokens),
        vocabulary_size=table.vocabulary_size,
    )
    return executor, STEPS_AHEAD


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


def _dtype(name: str, device: torch.device) -> torch.dtype:
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return _DTYPES[name]
