"""Gains and shifts against the weight merged as PEFT's paper has it, whatever packs the weight."""

import pytest
import torch
from torch import Tensor

from loraplex.engine.lora.gains import embedding_gain, linear_gain, shift_of
from loraplex.engine.models import linear
from loraplex.engine.models.base_linears import DecoderLinears, Part
from loraplex.engine.models.linear import Linear, pack

ROWS, WIDTH, RANK = 1100, 20, 3


@pytest.fixture(params=["compiled", "oneDNN", "plain"])
def weight_and_base(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[Tensor, DecoderLinears]:
    """A weight, and linears that hold it from row 4 on; more rows than are widened at once."""
    if request.param != "compiled":
        monkeypatch.setattr(linear, "library", lambda: None)
    if request.param == "plain":
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    torch.manual_seed(0)
    stored = torch.randn(ROWS + 4, WIDTH).bfloat16()
    whole = Linear(pack(stored, torch.float32), torch.randn(ROWS + 4))
    tables = {"table": pack(stored[4:], torch.float32, is_embedding=True)}
    return stored[4:].float(), DecoderLinears({"part": Part(whole, 4, ROWS + 4)}, tables)


def test_a_linears_gain_is_magnitude_over_the_merged_rows_norm(
    weight_and_base: tuple[Tensor, DecoderLinears],
) -> None:
    weight, base = weight_and_base
    a, b, magnitude = torch.randn(RANK, WIDTH), torch.randn(ROWS, RANK), torch.rand(ROWS)
    gain = linear_gain(base, "part", magnitude, a, b, 0.7)
    torch.testing.assert_close(gain, magnitude / (weight + 0.7 * b @ a).norm(dim=1))


def test_an_embeddings_gain_is_magnitude_over_the_merged_columns_norm(
    weight_and_base: tuple[Tensor, DecoderLinears],
) -> None:
    weight, base = weight_and_base
    a, b, magnitude = torch.randn(RANK, ROWS), torch.randn(WIDTH, RANK), torch.rand(WIDTH)
    gain = embedding_gain(base, "table", magnitude, a, b, 0.7)
    torch.testing.assert_close(gain, magnitude / (weight + 0.7 * (b @ a).T).norm(dim=0))


def test_nothing_comes_out_of_a_row_of_zeros_at_any_gain() -> None:
    base = DecoderLinears({"part": Part(Linear(pack(torch.zeros(4, 6), torch.float32)), 0, 4)}, {})
    gain = linear_gain(base, "part", torch.ones(4), torch.ones(2, 6), torch.zeros(4, 2), 1.0)
    assert gain.tolist() == [0.0] * 4


def test_a_shift_replaces_the_bias_that_the_gain_has_scaled() -> None:
    base, new, added, gain = (torch.randn(5) for _ in range(4))
    y = torch.randn(5) + base
    torch.testing.assert_close(y * gain + shift_of(base, new, None, gain), (y - base) * gain + new)
    torch.testing.assert_close(
        y * gain + shift_of(base, None, None, gain), (y - base) * gain + base
    )
    torch.testing.assert_close(y + shift_of(base, new, added, None), y - base + new + added)
    torch.testing.assert_close(shift_of(None, None, added, None), added)
