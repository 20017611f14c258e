"""What an adapter has beyond pairs of linears: an adapted embedding or head, gains and shifts.

A linear's gain and shift change what base and LoRA have made together: y = gain · y + shift,
feature by feature. DoRA and biases come down to that when an adapter is loaded, see `gains.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from loraplex.engine.lora.modules import ModuleNumbers
from loraplex.engine.lora.spread import Spread, SpreadLayout, plan_spread
from loraplex.engine.memory.pool import PageId
from loraplex.engine.protocol.adapter import AdapterModule, AdapterSpec, ReplacedBias
from loraplex.engine.protocol.module_table import LinearModule


@dataclass(frozen=True)
class EndLayout:
    """The embedding, whose A lies transposed `[vocabulary, rank]`, or the head."""

    module: AdapterModule
    a: SpreadLayout
    b: SpreadLayout
    gain: SpreadLayout | None
    shift: SpreadLayout | None


@dataclass(frozen=True)
class AffineLayout:
    """The gain and shift of the linear of number `number`, and what they are made of."""

    number: int
    linear: LinearModule
    module: AdapterModule | None
    replaced: ReplacedBias | None
    gain: SpreadLayout | None
    shift: SpreadLayout | None


@dataclass(frozen=True)
class ExtrasLayout:
    embedding: EndLayout | None
    head: EndLayout | None
    affine: tuple[AffineLayout, ...]


@dataclass(frozen=True)
class Affine:
    """Vectors of an output's features, as matrices of one column."""

    gain: Spread | None
    shift: Spread | None


@dataclass(frozen=True)
class EndLora:
    """LoRA on the embedding or the head, resident."""

    a: Spread
    b: Spread
    scale: float
    affine: Affine


@dataclass(frozen=True)
class AdapterExtras:
    """A resident adapter's extras; `affine` by module number."""

    embedding: EndLora | None
    head: EndLora | None
    affine: dict[int, Affine]


def plan_extras(
    spec: AdapterSpec, numbers: ModuleNumbers, used: list[int], page_elements: int
) -> ExtrasLayout | None:
    """Place them in pages filled as `used` says; None where there are none.

    Raises AdapterUnavailable where they do not fit the base model.
    """

    def spread(rows: int, width: int = 1) -> SpreadLayout:
        return plan_spread(rows, width, used, page_elements)

    def end(module: AdapterModule | None, *, is_embedding: bool) -> EndLayout | None:
        if module is None:
            return None
        numbers.check_end(module)
        (rank, inputs), (outputs, _) = module.a.shape, module.b.shape
        return EndLayout(
            module,
            spread(inputs, rank) if is_embedding else spread(rank, inputs),
            spread(outputs, rank),
            spread(outputs) if module.magnitude is not None else None,
            spread(outputs) if module.bias is not None else None,
        )

    embedding = end(spec.embedding, is_embedding=True)
    head = end(spec.head, is_embedding=False)
    affine = tuple(_affine(spec, numbers, spread))
    if embedding is None and head is None and not affine:
        return None
    return ExtrasLayout(embedding, head, affine)


def _affine(
    spec: AdapterSpec, numbers: ModuleNumbers, spread: Callable[[int], SpreadLayout]
) -> Iterator[AffineLayout]:
    adapted = {module.path: module for module in spec.modules}
    replaced = {bias.path: bias for bias in spec.biases}
    for number, linear in numbers.linears(dict.fromkeys((*adapted, *replaced))):
        module, bias = adapted.get(linear.path), replaced.get(linear.path)
        has_gain = module is not None and module.magnitude is not None
        has_shift = (
            bias is not None
            or (module is not None and module.bias is not None)
            or (has_gain and linear.has_bias)
        )
        if has_gain or has_shift:
            yield AffineLayout(
                number,
                linear,
                module,
                bias,
                spread(linear.out_features) if has_gain else None,
                spread(linear.out_features) if has_shift else None,
            )


def resolve_extras(
    layout: ExtrasLayout, pages: Sequence[PageId], page_elements: int
) -> AdapterExtras:
    """The extras of an adapter whose pages are `pages`."""

    def at(spread: SpreadLayout | None) -> Spread | None:
        return None if spread is None else spread.at(pages, page_elements)

    def end(found: EndLayout | None) -> EndLora | None:
        if found is None:
            return None
        a, b = (spread.at(pages, page_elements) for spread in (found.a, found.b))
        return EndLora(a, b, found.module.scale, Affine(at(found.gain), at(found.shift)))

    return AdapterExtras(
        end(layout.embedding),
        end(layout.head),
        {one.number: Affine(at(one.gain), at(one.shift)) for one in layout.affine},
    )
