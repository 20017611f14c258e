"""Sorts a file's tensors by module of the base, and names every one that belongs to none."""

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from loraplex.adapters_registry.peft_names import Part, foreign_format, read_name
from loraplex.adapters_registry.rejection import ReasonCode, RejectionReason, listed
from loraplex.adapters_registry.safetensors_guard import Header, TensorEntry
from loraplex.engine.protocol.module_table import EMBEDDING, HEAD, ModuleTable

LINEAR_PARTS = frozenset({Part.A, Part.B, Part.ADDED_BIAS, Part.MAGNITUDE})
EMBEDDING_PARTS = frozenset({Part.EMBEDDING_A, Part.EMBEDDING_B, Part.MAGNITUDE})


class FoundModule(msgspec.Struct):
    """The tensors of one module, as far as they were found."""

    a: TensorEntry | None = None
    b: TensorEntry | None = None
    added_bias: TensorEntry | None = None
    magnitude: TensorEntry | None = None


class FoundTensors(msgspec.Struct):
    """A file's tensors by path of the module; `tables` are whole weights of embedding and head."""

    modules: dict[str, FoundModule] = {}
    biases: dict[str, TensorEntry] = {}
    tables: dict[str, TensorEntry] = {}


_FIELDS = {
    Part.A: "a",
    Part.EMBEDDING_A: "a",
    Part.B: "b",
    Part.EMBEDDING_B: "b",
    Part.ADDED_BIAS: "added_bias",
    Part.MAGNITUDE: "magnitude",
}


def sort_tensors(header: Header, table: ModuleTable) -> tuple[FoundTensors, list[RejectionReason]]:
    """Every tensor in its place, and the reasons for those that have none."""
    sorting = _Sorting(table)
    for name, entry in header.tensors.items():
        sorting.add(name, entry)
    return sorting.found, list(sorting.reasons())


class _Sorting:
    def __init__(self, table: ModuleTable) -> None:
        self.found = FoundTensors()
        self._linears = table.by_path()
        self._places: dict[tuple[str, str], str] = {}
        self._adapters: set[str | None] = set()
        self._repeated: list[str] = []
        self._unmapped: dict[str | None, list[str]] = defaultdict(list)
        self._whole: list[str] = []

    def add(self, name: str, entry: TensorEntry) -> None:
        read = read_name(name)
        if read is None:
            self._unmapped[foreign_format(name)].append(name)
            return
        path, part, adapter = read
        if part not in self._parts_of(path):
            is_whole = part is Part.WHOLE and foreign_format(name) is None
            (self._whole if is_whole else self._unmapped[foreign_format(name)]).append(name)
        elif (path, part) in self._places:
            self._repeated += [self._places[path, part], name]
        else:
            self._places[path, part] = name
            if part in _FIELDS:
                self._adapters.add(adapter)
            self._put(path, part, entry)

    def _parts_of(self, path: str) -> frozenset[Part]:
        if path == EMBEDDING:
            return EMBEDDING_PARTS | {Part.WHOLE}
        if path == HEAD:
            return LINEAR_PARTS | {Part.WHOLE}
        return LINEAR_PARTS | {Part.BIAS} if path in self._linears else frozenset()

    def _put(self, path: str, part: Part, entry: TensorEntry) -> None:
        if part is Part.WHOLE:
            self.found.tables[path] = entry
        elif part is Part.BIAS:
            self.found.biases[path] = entry
        else:
            setattr(self.found.modules.setdefault(path, FoundModule()), _FIELDS[part], entry)

    def reasons(self) -> Iterator[RejectionReason]:
        for writer, names in self._unmapped.items():
            if writer is not None:
                message = f"The file has names that {writer}: {listed(names)}."
                yield RejectionReason(ReasonCode.NOT_SERVED, message, names[0])
                continue
            message = (
                f"No module of the base matches {len(names)} tensor(s): {listed(names)}. Expected "
                "names like base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight."
            )
            yield RejectionReason(ReasonCode.TENSOR_UNMAPPED, message, names[0])
        if self._whole:
            message = (
                f"The file holds whole weights in the place of the base's: {listed(self._whole)}. "
                "Only LoRA, biases and untouched copies of embed_tokens and lm_head are served."
            )
            yield RejectionReason(ReasonCode.NOT_SERVED, message, self._whole[0])
        if self._repeated:
            message = (
                f"Several tensors are the same one under other names: {listed(self._repeated)}."
            )
            yield RejectionReason(ReasonCode.TENSOR_REPEATED, message, self._repeated[0])
        if len(self._adapters) > 1:
            names = sorted(name or "(none)" for name in self._adapters)
            message = (
                f"The file holds tensors of several adapters, named {listed(names)}; save one."
            )
            yield RejectionReason(ReasonCode.TENSOR_REPEATED, message, names[-1])
