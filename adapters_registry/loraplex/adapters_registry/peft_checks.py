"""Whether a file's tensors are those its configuration speaks of, for this base; each refusal."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

from loraplex.adapters_registry.peft_config import AdapterConfig
from loraplex.adapters_registry.peft_targets import ALL_LINEAR, targeted
from loraplex.adapters_registry.peft_tensors import FoundModule, FoundTensors
from loraplex.adapters_registry.rejection import ReasonCode, RejectionReason, listed, shortened
from loraplex.adapters_registry.safetensors_guard import TensorEntry
from loraplex.engine.protocol.adapter import TensorDtype, TensorRef
from loraplex.engine.protocol.module_table import EMBEDDING, HEAD, LinearModule, ModuleTable
from loraplex.engine.protocol.values import digest_of_values


def tensor_ref(entry: TensorEntry) -> TensorRef:
    """As the engine reads it: a vector has one row."""
    rows, columns = entry.shape if len(entry.shape) == 2 else (1, *entry.shape)
    return TensorRef(
        entry.name, cast(TensorDtype, entry.dtype), (rows, columns), entry.start, entry.end
    )


def check_complete(config: AdapterConfig, found: FoundTensors) -> Iterator[RejectionReason]:
    """Both of a pair, and with it just what the configuration's variants of LoRA have."""
    modules = found.modules
    for side, other in (("B", "A"), ("A", "B")):
        lone = [path for path, one in modules.items() if (one.b if side == "B" else one.a) is None]
        if lone:
            message = f"lora_{side} is missing (lora_{other} is there) for {listed(lone)}."
            yield RejectionReason(ReasonCode.PAIR_INCOMPLETE, message, lone[0])
    has = {
        "lora_B.bias": [path for path, one in modules.items() if one.added_bias is not None],
        "lora_magnitude_vector": [
            path for path, one in modules.items() if one.magnitude is not None
        ],
    }
    for name, field, is_set in (
        ("lora_B.bias", "lora_bias", config.lora_bias),
        ("lora_magnitude_vector", "use_dora", config.use_dora),
    ):
        if has[name] and not is_set:
            message = (
                f"The file has {name} for {listed(has[name])}, but {field} is not true; "
                "PEFT would ignore it."
            )
            yield RejectionReason(ReasonCode.TARGETS_DISAGREE, message, field)
        lacking = [path for path in modules if path not in has[name]] if is_set else []
        if field == "lora_bias" and EMBEDDING in lacking:
            message = "lora_bias cannot be used on an embedding; PEFT refuses it too."
            yield RejectionReason(ReasonCode.CONFIG_FIELD_INVALID, message, field)
        elif lacking:
            message = f"{field} is true, but the file has no {name} for {listed(lacking)}."
            yield RejectionReason(ReasonCode.PAIR_INCOMPLETE, message, lacking[0])


def check_biases(
    config: AdapterConfig, found: FoundTensors, table: ModuleTable
) -> Iterator[RejectionReason]:
    """The base's biases that the file replaces are those `bias` speaks of, in their shapes."""
    linears = table.by_path()
    wanted = {path for path, linear in linears.items() if linear.has_bias and config.bias != "none"}
    if config.bias == "lora_only":
        wanted &= found.modules.keys()
    in_order = list(linears)
    if extra := [path for path in in_order if path in found.biases.keys() - wanted]:
        message = (
            f"The file has biases for {listed(extra)}, which bias={config.bias!r} does not speak "
            f"of or {table.base_name} does not have."
        )
        yield RejectionReason(ReasonCode.TARGETS_DISAGREE, message, "bias")
    if missing := [path for path in in_order if path in wanted - found.biases.keys()]:
        message = (
            f"bias is {config.bias!r}, but the file has no bias for {listed(missing)}; "
            "the file may be incomplete."
        )
        yield RejectionReason(ReasonCode.TARGETS_DISAGREE, message, "bias")
    for path in wanted & found.biases.keys():
        yield from vector_fault(linears[path], "bias", found.biases[path], table.base_name)


def check_targets(
    config: AdapterConfig, found: FoundTensors, table: ModuleTable
) -> Iterator[RejectionReason]:
    in_order = [module.path for module in (*table.modules, *table.ends)]
    is_shorthand = str(config.target_modules).lower() == ALL_LINEAR
    wanted = targeted(
        list(table.by_path()) if is_shorthand else in_order,
        target_modules=config.target_modules,
        exclude_modules=config.exclude_modules,
        layers_to_transform=config.layers_to_transform,
        layers_pattern=config.layers_pattern,
    )
    if config.ensure_weight_tying and table.is_tied and wanted & {EMBEDDING, HEAD}:
        wanted |= {EMBEDDING, HEAD}
    if extra := [path for path in in_order if path in found.modules.keys() - wanted]:
        message = (
            f"The file has tensors for {listed(extra)}, which the configuration does not target "
            "(target_modules, exclude_modules, layers_to_transform); PEFT would ignore them."
        )
        yield RejectionReason(ReasonCode.TARGETS_DISAGREE, message, "target_modules")
    if missing := [path for path in in_order if path in wanted - found.modules.keys()]:
        message = (
            f"The configuration targets {listed(missing)}, but the file has no tensors for it; "
            "the file may be incomplete."
        )
        yield RejectionReason(ReasonCode.TARGETS_DISAGREE, message, "target_modules")
    if not wanted and not found.modules:
        message = f"No module of {table.base_name} is targeted, and the file adapts none."
        yield RejectionReason(ReasonCode.TARGETS_DISAGREE, message, "target_modules")


def check_shapes(
    module: LinearModule, found: FoundModule, rank: int, base_name: str
) -> Iterator[RejectionReason]:
    for side, entry, expected, base_dimension in (
        ("A", found.a, f"[{rank}, {module.in_features}]", (1, module.in_features)),
        ("B", found.b, f"[{module.out_features}, {rank}]", (0, module.out_features)),
    ):
        assert entry is not None, "a pair is complete before its shapes are looked at"
        axis, features = base_dimension
        shape = list(entry.shape)
        if len(shape) != 2 or shape[axis] != features:
            yield wrong_shape(module.path, f"lora_{side}", shape, expected, base_name)
        elif shape[1 - axis] != rank:
            yield RejectionReason(
                ReasonCode.RANK_MISMATCH,
                f"{module.path}: lora_{side} has rank {shape[1 - axis]} (shape {shape}), but the "
                f"configuration says {rank} (r and rank_pattern).",
                module.path,
            )
    for name, vector in (
        ("lora_B.bias", found.added_bias),
        ("lora_magnitude_vector", found.magnitude),
    ):
        if vector is not None:
            yield from vector_fault(module, name, vector, base_name)


def vector_fault(
    module: LinearModule, name: str, vector: TensorEntry, base_name: str
) -> Iterator[RejectionReason]:
    if vector.shape != (module.out_features,):
        expected = f"[{module.out_features}]"
        yield wrong_shape(module.path, name, list(vector.shape), expected, base_name)


def wrong_shape(
    path: str, name: str, found: list[int], expected: str, base_name: str
) -> RejectionReason:
    return RejectionReason(
        ReasonCode.WRONG_BASE_SHAPE,
        f"{path}: {name} has shape {shortened(found)}, but {base_name} needs {expected}. "
        "Was the adapter trained on another base model?",
        path,
    )


def check_tables(
    tables: dict[str, TensorEntry], weights: Path, table: ModuleTable
) -> Iterator[RejectionReason]:
    """Whole embeddings and heads are the base's own, which PEFT saves beside LoRA on them."""
    for path, entry in tables.items():
        expected = (table.vocabulary_size, table.hidden_size)
        if entry.shape != expected:
            fault = (
                f"has shape {list(entry.shape)} instead of {list(expected)}: the vocabulary was "
                "resized, which is not served"
            )
        elif digest_of_values(weights, entry.dtype, entry.start, entry.end) != (
            table.table_digests.get(path)
        ):
            fault = (
                "differs from the base's own: retrained tables of tokens are not served. Save with "
                "save_embedding_layers=False if it was not trained"
            )
        else:
            continue
        message = f"{entry.name} {fault}."
        yield RejectionReason(ReasonCode.NOT_SERVED, message, entry.name)
