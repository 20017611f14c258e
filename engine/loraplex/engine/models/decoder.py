"""The decoder all served architectures share: attention, gated MLP, and LoRA beside each linear."""

from itertools import pairwise

import torch
from torch import Tensor

from loraplex.engine.kernels.fused import add_norm, gate, rotate_and_write_kv
from loraplex.engine.kernels.ops import Kernels
from loraplex.engine.lora.adapted import AdaptedStep
from loraplex.engine.lora.modules import DOWN, GATE_UP, LINEARS, OUTPUT, QKV, LinearGroup
from loraplex.engine.models.base_linears import DecoderLinears, Part
from loraplex.engine.models.batch import Batch
from loraplex.engine.models.decoder_config import DecoderConfig
from loraplex.engine.models.layer import Layer, LayerLoader
from loraplex.engine.models.linear import Linear
from loraplex.engine.models.rope import RotaryEmbedding
from loraplex.engine.models.weights import ModelWeights
from loraplex.engine.protocol.module_table import EMBEDDING, HEAD


class Decoder:
    """A causal language model over a page pool. Stateless: all state is in the pool."""

    def __init__(
        self,
        config: DecoderConfig,
        weights: ModelWeights,
        kernels: Kernels,
        *,
        block_tokens: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._config = config
        self._kernels = kernels
        self._block_tokens = block_tokens
        self._epsilon = config.rms_epsilon
        self._rope = RotaryEmbedding(config.rope, device)
        shape = config.shape
        query, kv, middle = config.query_size, config.kv_size, shape.intermediate_size
        self._slice_starts = {
            QKV: (0, query, query + kv, query + 2 * kv),
            OUTPUT: (0, shape.hidden_size),
            GATE_UP: (0, middle, 2 * middle),
            DOWN: (0, shape.hidden_size),
        }
        loader = LayerLoader(config, weights, dtype, device)
        self._embeddings = loader.weight("model.embed_tokens.weight", is_embedding=True)
        self._layers = [loader.layer(number) for number in range(shape.layers)]
        self._norm = loader.tensor("model.norm.weight")
        self._output = (
            self._embeddings if shape.has_tied_embeddings else loader.weight("lm_head.weight")
        )

    def base_linears(self) -> DecoderLinears:
        """The weights by path."""
        parts = {}
        for layer in self._layers:
            for group, linear in layer.linears.items():
                names = LINEARS[group.start : group.end]
                for name, (start, end) in zip(
                    names, pairwise(self._slice_starts[group]), strict=True
                ):
                    block = "self_attn" if group in (QKV, OUTPUT) else "mlp"
                    parts[f"model.layers.{layer.number}.{block}.{name}"] = Part(linear, start, end)
        tables = {EMBEDDING: self._embeddings, HEAD: self._output}
        return DecoderLinears(parts, tables)

    def forward(self, batch: Batch, pages: Tensor) -> Tensor:
        """Write the batch's keys and values to `pages`; logits `[sampled, vocabulary]`, float32."""
        hidden = self._embeddings.rows(batch.token_ids)
        rotation = self._rope.cos_sin(batch.positions, batch.prompt_tokens, hidden.dtype)
        step = None if batch.lora is None else AdaptedStep(batch.lora, self._kernels, pages)
        if step is not None:
            step.embed(hidden, batch.token_ids)
        delta = None
        for layer in self._layers:
            normed = add_norm(hidden, delta, layer.input_norm, self._epsilon)
            delta = self._attention(layer, normed, rotation, batch, pages, step)
            normed = add_norm(hidden, delta, layer.mlp_norm, self._epsilon)
            delta = self._mlp(layer, normed, step)
        sampled = hidden[batch.sample_rows]
        last = None if delta is None else delta[batch.sample_rows]
        normed = add_norm(sampled, last, self._norm, self._epsilon)
        logits = self._output.multiply(normed).float()
        if step is not None:
            step.choose(logits, normed)
        return logits

    def _attention(
        self,
        layer: Layer,
        x: Tensor,
        rotation: tuple[Tensor, Tensor],
        batch: Batch,
        pages: Tensor,
        step: AdaptedStep | None,
    ) -> Tensor:
        shape = self._config.shape
        heads, kv_heads, head_size = shape.attention_heads, shape.kv_heads, shape.head_size
        qkv = self._linear(layer.qkv, x, layer, QKV, step)
        query = rotate_and_write_kv(
            qkv,
            *rotation,
            layer.qk_norm,
            self._epsilon,
            pages,
            batch.slots,
            heads,
            kv_heads,
            layer.number,
            shape.layers,
            self._block_tokens,
        )
        attended = self._kernels.paged_attention(
            query,
            pages,
            batch.block_tables,
            batch.query_starts,
            batch.context_tokens,
            layer.number,
            shape.layers,
            self._block_tokens,
            kv_heads,
            head_size**-0.5,
            layer.window,
        )
        return self._linear(layer.output, attended.flatten(1), layer, OUTPUT, step)

    def _mlp(self, layer: Layer, x: Tensor, step: AdaptedStep | None) -> Tensor:
        gate_up = self._linear(layer.gate_up, x, layer, GATE_UP, step)
        return self._linear(layer.down, gate(gate_up), layer, DOWN, step)

    def _linear(
        self,
        linear: Linear,
        x: Tensor,
        layer: Layer,
        group: LinearGroup,
        step: AdaptedStep | None,
    ) -> Tensor:
        if step is None:
            return linear(x)
        return step.linear(linear, x, layer.number, group, self._slice_starts[group])
