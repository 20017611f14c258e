"""Rotary position embeddings, with the scaling kinds that published Llama-like models use."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from loraplex.engine.protocol.model_config import SERVED_ROPE_TYPES, refuse


@dataclass(frozen=True)
class RopeConfig:
    """`original_tokens` is the length before scaling; the other fields are the kind's own."""

    kind: str
    theta: float
    head_size: int
    original_tokens: int
    factor: float = 1.0
    low_frequency_factor: float = 1.0
    high_frequency_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float = 1.0
    truncates: bool = True


def read_rope(raw: dict[str, Any], head_size: int) -> RopeConfig:
    """Read old (`rope_scaling`, `rope_theta`) and new (`rope_parameters`) configs alike.

    Raises UnsupportedModel for a kind that is not served, by name.
    """
    fields: dict[str, Any] = dict(raw.get("rope_parameters") or raw.get("rope_scaling") or {})
    kind = str(fields.get("rope_type", fields.get("type", "default")))
    partial = fields.get("partial_rotary_factor", raw.get("partial_rotary_factor", 1.0))
    if partial not in (None, 1.0):
        refuse("Partial rotary heads are not served.", "partial_rotary_factor", "1.0", partial)
    theta = float(fields.get("rope_theta") or raw.get("rope_theta") or 10_000.0)
    longest = int(raw["max_position_embeddings"])
    original = int(fields.get("original_max_position_embeddings") or longest)
    if kind not in SERVED_ROPE_TYPES:
        refuse(
            f"The rope scaling {kind!r} is not served.",
            "rope_scaling.rope_type",
            f"one of {', '.join(SERVED_ROPE_TYPES)}",
            kind,
        )
    if kind == "yarn":
        return _read_yarn(fields, theta, head_size, original, longest)
    if kind == "llama3":
        return RopeConfig(
            kind,
            theta,
            head_size,
            original,
            factor=_number(fields, "factor"),
            low_frequency_factor=_number(fields, "low_freq_factor"),
            high_frequency_factor=_number(fields, "high_freq_factor"),
        )
    factor = 1.0 if kind == "default" else _number(fields, "factor")
    return RopeConfig(kind, theta, head_size, longest, factor)


def _read_yarn(
    fields: dict[str, Any], theta: float, head_size: int, original: int, longest: int
) -> RopeConfig:
    given = fields.get("factor")
    factor = longest / original if given is None else _number(fields, "factor")
    attention_factor = fields.get("attention_factor")
    if attention_factor is None:
        mscale, mscale_all = fields.get("mscale"), fields.get("mscale_all_dim")
        if mscale and mscale_all:
            attention_factor = _mscale(factor, mscale) / _mscale(factor, mscale_all)
        else:
            attention_factor = _mscale(factor, 1.0)
    return RopeConfig(
        "yarn",
        theta,
        head_size,
        original,
        factor=factor,
        beta_fast=float(fields.get("beta_fast") or 32),
        beta_slow=float(fields.get("beta_slow") or 1),
        attention_factor=float(attention_factor),
        truncates=bool(fields.get("truncate", True)),
    )


def _mscale(factor: float, mscale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def _number(fields: dict[str, Any], name: str) -> float:
    value = fields.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
        refuse(
            f"The rope scaling lacks a usable {name}.", f"rope_scaling.{name}", "> 0", repr(value)
        )
    return float(value)


class RotaryEmbedding:
    """Cosines and sines of token positions."""

    def __init__(self, config: RopeConfig, device: torch.device) -> None:
        self._config = config
        self._frequencies = _inverse_frequencies(config).to(device)

    def cos_sin(
        self, positions: Tensor, prompt_tokens: Tensor, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Both `[rows, head_size / 2]`.

        `positions` and `prompt_tokens` are `[rows]`: a token's place, and the length of the
        prompt it belongs to. Only dynamic scaling reads the latter: its frequencies follow the
        length of the sequence so far, which Transformers takes from one forward pass. Here it is
        the prompt's length for all of the prompt, however the prompt is cut into chunks.
        """
        frequencies = self._frequencies
        if self._config.kind == "dynamic":
            frequencies = self._dynamic(torch.maximum(prompt_tokens, positions + 1))
        angles = positions[:, None].float() * frequencies
        factor = self._config.attention_factor
        return (angles.cos() * factor).to(dtype), (angles.sin() * factor).to(dtype)

    def _dynamic(self, tokens: Tensor) -> Tensor:
        config = self._config
        tokens = tokens.clamp(min=config.original_tokens).float()
        stretch = config.factor * tokens / config.original_tokens - (config.factor - 1)
        size = config.head_size
        theta = config.theta * stretch ** (size / (size - 2))
        return 1.0 / theta[:, None] ** _exponents(size, tokens.device)


def _exponents(head_size: int, device: torch.device | None = None) -> Tensor:
    return torch.arange(0, head_size, 2, dtype=torch.float32, device=device) / head_size


def _inverse_frequencies(config: RopeConfig) -> Tensor:
    plain = 1.0 / config.theta ** _exponents(config.head_size)
    match config.kind:
        case "linear":
            return plain / config.factor
        case "llama3":
            return _llama3(plain, config)
        case "yarn":
            return _yarn(plain, config)
        case _:
            return plain


def _llama3(plain: Tensor, config: RopeConfig) -> Tensor:
    """Long wavelengths are stretched, short ones kept, those between blended."""
    low, high = config.low_frequency_factor, config.high_frequency_factor
    turns = config.original_tokens * plain / (2 * math.pi)
    blend = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 - blend) * plain / config.factor + blend * plain


def _yarn(plain: Tensor, config: RopeConfig) -> Tensor:
    """Dimensions that turn often are kept, those that turn rarely stretched, a ramp between."""

    def dimension(turns: float) -> float:
        length = config.original_tokens / (turns * 2 * math.pi)
        return config.head_size * math.log(length) / (2 * math.log(config.theta))

    low, high = dimension(config.beta_fast), dimension(config.beta_slow)
    if config.truncates:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, config.head_size - 1)
    if low == high:
        high += 0.001
    steps = torch.arange(config.head_size // 2, dtype=torch.float32)
    stretched = ((steps - low) / (high - low)).clamp(0, 1)
    return plain / config.factor * stretched + plain * (1 - stretched)
