"""Fills an adapter's extras: the embedding's and head's matrices as they are, gains and shifts."""

from collections.abc import Callable, Sequence
from functools import cache

from torch import Tensor

from loraplex.engine.lora.dtypes import convert, floats
from loraplex.engine.lora.extras import AffineLayout, EndLayout, ExtrasLayout
from loraplex.engine.lora.gains import BaseLinears, embedding_gain, linear_gain, shift_of
from loraplex.engine.lora.reading import Words
from loraplex.engine.lora.spread import SpreadLayout
from loraplex.engine.protocol.adapter import AdapterModule, TensorRef


class ExtrasPacking:
    """Writes what lies in `places`, the adapter's pages from `first_page` on, and nothing else.

    It wants some of the file's tensors, gets them in whatever order they are read, and packs when
    it has them all.
    """

    def __init__(
        self,
        extras: ExtrasLayout | None,
        places: Sequence[Tensor],
        first_page: int,
        base: BaseLinears | None,
    ) -> None:
        self._places = places
        self._pages = range(first_page, first_page + len(places))
        self._base = base
        self._words: dict[int, Words] = {}
        self.wanted: dict[int, TensorRef] = {}
        """By where they start in the file."""
        self._jobs: list[tuple[SpreadLayout, Callable[[], Tensor]]] = []
        if extras is None:
            return
        for end in (extras.embedding, extras.head):
            if end is not None:
                self._plan_end(end, is_embedding=end is extras.embedding)
        for one in extras.affine:
            self._plan_affine(one)

    def take(self, tensor: TensorRef, words: Words) -> None:
        """One of the wanted tensors, as it is stored."""
        self._words[tensor.start] = words

    def pack(self) -> None:
        for spread, make in self._jobs:
            self._write(spread, make())

    def _plan_end(self, end: EndLayout, *, is_embedding: bool) -> None:
        module = end.module

        def a() -> Tensor:
            stored = self._floats(module.a)
            return stored.T if is_embedding else stored

        def gain() -> Tensor:
            return self._gain(module, is_embedding=is_embedding)

        self._plan(end.a, [module.a], a)
        self._plan(end.b, [module.b], lambda: self._floats(module.b))
        self._plan(end.gain, [module.a, module.b, module.magnitude], gain)
        self._plan(end.shift, [module.bias], lambda: self._added(module))

    def _plan_affine(self, one: AffineLayout) -> None:
        module = one.module

        @cache
        def gain() -> Tensor | None:
            if module is None or module.magnitude is None:
                return None
            return self._gain(module, is_embedding=False)

        def known_gain() -> Tensor:
            found = gain()
            assert found is not None, "a gain is planned where there are magnitudes"
            return found

        def shift() -> Tensor:
            return shift_of(
                self._the_base.bias(one.linear.path),
                None if replaced is None else self._floats(replaced)[0],
                None if module is None or module.bias is None else self._added(module),
                gain(),
            )

        replaced = None if one.replaced is None else one.replaced.tensor
        added = None if module is None else module.bias
        made_of: list[TensorRef | None] = []
        if module is not None and module.magnitude is not None:
            made_of = [module.a, module.b, module.magnitude]
        self._plan(one.gain, made_of, known_gain)
        self._plan(one.shift, [*made_of, added, replaced], shift)

    def _plan(
        self,
        spread: SpreadLayout | None,
        made_of: Sequence[TensorRef | None],
        make: Callable[[], Tensor],
    ) -> None:
        if spread is None or not any(block.page in self._pages for block in spread.blocks):
            return
        self.wanted |= {tensor.start: tensor for tensor in made_of if tensor is not None}
        self._jobs.append((spread, make))

    def _gain(self, module: AdapterModule, *, is_embedding: bool) -> Tensor:
        assert module.magnitude is not None, "a gain is planned where there are magnitudes"
        make = embedding_gain if is_embedding else linear_gain
        a, b, magnitude = map(self._floats, (module.a, module.b, module.magnitude))
        return make(self._the_base, module.path, magnitude[0], a, b, module.scale)

    def _added(self, module: AdapterModule) -> Tensor:
        assert module.bias is not None, "a shift is planned where there is a bias"
        return self._floats(module.bias)[0] * module.scale

    def _floats(self, tensor: TensorRef) -> Tensor:
        return floats(tensor, self._words[tensor.start])

    @property
    def _the_base(self) -> BaseLinears:
        assert self._base is not None, "a device that serves models hands out their weights"
        return self._base

    def _write(self, spread: SpreadLayout, rows: Tensor) -> None:
        for block in spread.blocks:
            if block.page in self._pages:
                place = self._places[block.page - self._pages.start]
                values = rows[block.start : block.end].reshape(-1)
                convert(values, place[block.offset : block.offset + len(values)])
