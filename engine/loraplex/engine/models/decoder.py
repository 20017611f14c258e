"""The decoder all served architectures share: attention, gated MLP, and LoRA beside each linear."""

import torch
from torch import Tensor
from torch.nn.functional import rms_norm, silu

from loraplex.engine.kernels.ops import Kernels
from loraplex.engine.lora.modules import DOWN, GATE_UP, OUTPUT, QKV, LinearGroup
from loraplex.engine.lora.segments import add_lora
from loraplex.engine.models.batch import Batch
from loraplex.engine.models.decoder_config import DecoderConfig
from loraplex.engine.models.layer import Layer, LayerLoader
from loraplex.engine.models.linear import Linear
from loraplex.engine.models.rope import RotaryEmbedding, rotate
from loraplex.engine.models.weights import ModelWeights


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
        self._rope = RotaryEmbedding(config.rope, device)
        shape = config.shape
        self._widths = {
            QKV: (config.query_size, config.kv_size, config.kv_size),
            OUTPUT: (shape.hidden_size,),
            GATE_UP: (shape.intermediate_size, shape.intermediate_size),
            DOWN: (shape.hidden_size,),
        }
        loader = LayerLoader(config, weights, dtype, device)
        self._embeddings = loader.weight("model.embed_tokens.weight", is_embedding=True)
        self._layers = [loader.layer(number) for number in range(shape.layers)]
        self._norm = loader.tensor("model.norm.weight")
        self._output = (
            self._embeddings if shape.has_tied_embeddings else loader.weight("lm_head.weight")
        )

    def forward(self, batch: Batch, pages: Tensor) -> Tensor:
        """Write the batch's keys and values to `pages`; logits `[sampled, vocabulary]`, float32."""
        hidden = self._embeddings.rows(batch.token_ids)
        rotation = self._rope.cos_sin(batch.positions, batch.prompt_tokens, hidden.dtype)
        for layer in self._layers:
            normed = self._normed(hidden, layer.input_norm)
            hidden = hidden + self._attention(layer, normed, rotation, batch, pages)
            normed = self._normed(hidden, layer.mlp_norm)
            hidden = hidden + self._mlp(layer, normed, batch, pages)
        sampled = hidden[batch.sample_rows]
        return self._output.multiply(self._normed(sampled, self._norm)).float()

    def _attention(
        self,
        layer: Layer,
        x: Tensor,
        rotation: tuple[Tensor, Tensor],
        batch: Batch,
        pages: Tensor,
    ) -> Tensor:
        shape = self._config.shape
        heads, kv_heads, head_size = shape.attention_heads, shape.kv_heads, shape.head_size
        qkv = self._linear(layer.qkv, x, layer, QKV, batch, pages)
        qkv = qkv.view(-1, heads + 2 * kv_heads, head_size)
        qk = qkv[:, : heads + kv_heads]
        if layer.qk_norm is not None:
            qk = self._normed(qk, None) * layer.qk_norm
        qk = rotate(qk, *rotation)
        kv = torch.stack((qk[:, heads:], qkv[:, heads + kv_heads :]), dim=1)
        self._kernels.write_kv(
            kv, pages, batch.slots, layer.number, shape.layers, self._block_tokens
        )
        attended = self._kernels.paged_attention(
            qk[:, :heads].contiguous(),
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
        return self._linear(layer.output, attended.flatten(1), layer, OUTPUT, batch, pages)

    def _mlp(self, layer: Layer, x: Tensor, batch: Batch, pages: Tensor) -> Tensor:
        gate, up = self._linear(layer.gate_up, x, layer, GATE_UP, batch, pages).chunk(2, dim=-1)
        return self._linear(layer.down, silu(gate) * up, layer, DOWN, batch, pages)

    def _linear(
        self,
        linear: Linear,
        x: Tensor,
        layer: Layer,
        group: LinearGroup,
        batch: Batch,
        pages: Tensor,
    ) -> Tensor:
        y = linear(x)
        if batch.lora is not None:
            widths = self._widths[group]
            add_lora(batch.lora, self._kernels, x, y, pages, layer.number, group, widths)
        return y

    def _normed(self, x: Tensor, weight: Tensor | None) -> Tensor:
        return rms_norm(x, x.shape[-1:], weight, self._config.rms_epsilon)
