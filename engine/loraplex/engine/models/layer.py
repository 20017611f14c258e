"""One decoder layer's weights, joined as they are multiplied: q, k and v; gate and up."""

from dataclasses import dataclass

import torch
from torch import Tensor

from loraplex.engine.lora.modules import DOWN, GATE_UP, OUTPUT, QKV, LinearGroup
from loraplex.engine.models.decoder_config import DecoderConfig
from loraplex.engine.models.linear import Linear, Weight, pack
from loraplex.engine.models.weights import ModelWeights


@dataclass(frozen=True)
class Layer:
    """`qk_norm` is `[heads + kv_heads, head_size]` where the model norms queries and keys.

    `window` is the number of tokens the layer sees, 0 for all.
    """

    number: int
    window: int
    input_norm: Tensor
    qkv: Linear
    qk_norm: Tensor | None
    output: Linear
    mlp_norm: Tensor
    gate_up: Linear
    down: Linear

    @property
    def linears(self) -> dict[LinearGroup, Linear]:
        return {QKV: self.qkv, OUTPUT: self.output, GATE_UP: self.gate_up, DOWN: self.down}


class LayerLoader:
    """Reads weights under Hugging Face's names, converted once to the compute dtype."""

    def __init__(
        self,
        config: DecoderConfig,
        weights: ModelWeights,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._config = config
        self._weights = weights
        self._dtype = dtype
        self._device = device

    def tensor(self, *names: str) -> Tensor:
        """One tensor, or several stacked along their first dimension."""
        return self._weights.join(list(names), self._dtype, self._device)

    def weight(self, *names: str, is_embedding: bool = False) -> Weight:
        """One linear's weight, or several stacked, in the layout this device multiplies by."""
        stored = self._weights.join(list(names), None, self._device)
        return pack(stored, self._dtype, is_embedding=is_embedding)

    def layer(self, number: int) -> Layer:
        prefix = f"model.layers.{number}"
        shape = self._config.shape
        attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
        qkv = [f"{attention}.{name}_proj" for name in "qkv"]
        return Layer(
            number=number,
            window=self._config.windows[number] or 0,
            input_norm=self.tensor(f"{prefix}.input_layernorm.weight"),
            qkv=self._linear(qkv, has_bias=shape.has_qkv_bias),
            qk_norm=self._qk_norm(attention) if shape.has_qk_norm else None,
            output=self._linear([f"{attention}.o_proj"], has_bias=shape.has_output_bias),
            mlp_norm=self.tensor(f"{prefix}.post_attention_layernorm.weight"),
            gate_up=self._linear(
                [f"{mlp}.gate_proj", f"{mlp}.up_proj"], has_bias=shape.has_mlp_bias
            ),
            down=self._linear([f"{mlp}.down_proj"], has_bias=shape.has_mlp_bias),
        )

    def _linear(self, paths: list[str], *, has_bias: bool) -> Linear:
        bias = self.tensor(*(f"{path}.bias" for path in paths)) if has_bias else None
        return Linear(self.weight(*(f"{path}.weight" for path in paths)), bias)

    def _qk_norm(self, attention: str) -> Tensor:
        shape = self._config.shape
        query = self.tensor(f"{attention}.q_norm.weight").expand(shape.attention_heads, -1)
        key = self.tensor(f"{attention}.k_norm.weight").expand(shape.kv_heads, -1)
        return torch.cat((query, key))
