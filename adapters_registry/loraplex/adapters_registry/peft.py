"""Turns a PEFT upload into the AdapterSpec the engine multiplies: all of PEFT's meaning."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import msgspec

from loraplex.adapters_registry.finite import find_not_finite
from loraplex.adapters_registry.peft_config import AdapterConfig, parse_config
from loraplex.adapters_registry.peft_targets import PatternValues, targeted
from loraplex.adapters_registry.rejection import (
    AdapterRejected,
    ReasonCode,
    RejectionReason,
    listed,
    shortened,
)
from loraplex.adapters_registry.safetensors_guard import Header, TensorEntry, read_header
from loraplex.engine.protocol.adapter import AdapterModule, AdapterSpec, TensorDtype, TensorRef
from loraplex.engine.protocol.identity import (
    Digest,
    digest_of_bytes,
    digest_of_file,
    digest_of_manifest,
)
from loraplex.engine.protocol.module_table import LinearModule, ModuleTable

TENSOR_KEY = re.compile(r"base_model\.model\.(?P<path>.+)\.lora_(?P<side>[AB])\.weight")
OTHER_TENSORS = {
    "lora_magnitude_vector": "DoRA",
    "lora_embedding_A": "LoRA on embeddings",
    "lora_embedding_B": "LoRA on embeddings",
    ".lora_B.bias": "a bias on lora_B",
    "modules_to_save": "whole modules",
    "embed_tokens": "embeddings",
    "lm_head": "the output head",
}


class Pair(msgspec.Struct):
    """The tensors of one module, as far as they were found."""

    a: TensorEntry | None = None
    b: TensorEntry | None = None


def adapter_digest(base: Digest, config: Digest, weights: Digest) -> Digest:
    """The adapter's identity: its canonical manifest, which names the base too."""
    return digest_of_manifest(
        {"kind": "adapter", "base": base, "config": config, "weights": weights}
    )


def spec_from_files(config_bytes: bytes, weights_path: Path, table: ModuleTable) -> AdapterSpec:
    """The AdapterSpec of an upload, fully checked.

    Raises AdapterRejected with every reason found.
    """
    reasons: list[RejectionReason] = []
    config: AdapterConfig | None = None
    header: Header | None = None
    try:
        config = parse_config(config_bytes)
    except AdapterRejected as rejected:
        reasons += rejected.reasons
    try:
        header = read_header(weights_path)
    except AdapterRejected as rejected:
        reasons += rejected.reasons
    if config is None or header is None:
        raise AdapterRejected(reasons)
    modules = resolve(config, header, table)
    if broken := find_not_finite(weights_path, header):
        message = f"Weights are NaN or infinite in {listed(broken)}."
        raise AdapterRejected([RejectionReason(ReasonCode.WEIGHTS_NOT_FINITE, message, broken[0])])
    weights_digest = digest_of_file(weights_path)
    return AdapterSpec(
        digest=adapter_digest(table.base_digest, digest_of_bytes(config_bytes), weights_digest),
        base_digest=table.base_digest,
        weights_digest=weights_digest,
        weights_bytes=header.file_bytes,
        modules=modules,
    )


def resolve(config: AdapterConfig, header: Header, table: ModuleTable) -> tuple[AdapterModule, ...]:
    """Every tensor of the file mapped to a module of the base, at the scale PEFT would use.

    Modules come in the base's order. Raises AdapterRejected with every reason found.
    """
    served = table.by_path()
    pairs, reasons = pair_tensors(header, served)
    reasons += check_pairs(pairs)
    try:
        reasons += check_targets(config, set(pairs), served)
        ranks, alphas = PatternValues(config.rank_pattern), PatternValues(config.alpha_pattern)
    except (re.error, RecursionError, OverflowError) as error:
        message = f"A pattern of the configuration cannot be used: {error}."
        raise AdapterRejected(
            [RejectionReason(ReasonCode.CONFIG_FIELD_INVALID, message, "adapter_config")]
        ) from None
    modules = []
    for linear in table.modules:
        pair = pairs.get(linear.path)
        if pair is None or pair.a is None or pair.b is None:
            continue
        rank = ranks.of(linear.path, config.rank)
        faults = list(check_shapes(linear, pair.a, pair.b, rank, table.base_name))
        reasons += faults
        if not faults:
            alpha = alphas.of(linear.path, config.alpha)
            modules.append(module_of(linear, pair.a, pair.b, scale_of(alpha, rank, config)))
    if reasons:
        raise AdapterRejected(summarized(reasons))
    return tuple(modules)


def scale_of(alpha: float, rank: int, config: AdapterConfig) -> float:
    return alpha / math.sqrt(rank) if config.use_rslora else alpha / rank


def pair_tensors(
    header: Header, served: dict[str, LinearModule]
) -> tuple[dict[str, Pair], list[RejectionReason]]:
    pairs: dict[str, Pair] = {}
    unmapped: dict[str, list[str]] = {}
    for name, entry in header.tensors.items():
        match = TENSOR_KEY.fullmatch(name)
        if match is None or match["path"] not in served:
            unmapped.setdefault(kind_of(name), []).append(name)
            continue
        pair = pairs.setdefault(match["path"], Pair())
        if match["side"] == "A":
            pair.a = entry
        else:
            pair.b = entry
    return pairs, [unmapped_reason(kind, names) for kind, names in unmapped.items()]


def kind_of(name: str) -> str:
    return next((kind for mark, kind in OTHER_TENSORS.items() if mark in name), "")


def unmapped_reason(kind: str, names: list[str]) -> RejectionReason:
    if kind:
        message = f"The file holds tensors of {kind}, not served yet: {listed(names)}."
        return RejectionReason(ReasonCode.NOT_SERVED, message, names[0])
    message = (
        f"No module of the base matches {len(names)} tensor(s): {listed(names)}. Expected names "
        "like base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight."
    )
    return RejectionReason(ReasonCode.TENSOR_UNMAPPED, message, names[0])


def check_pairs(pairs: dict[str, Pair]) -> Iterator[RejectionReason]:
    for side, other in (("B", "A"), ("A", "B")):
        lone = [path for path, pair in pairs.items() if (pair.b if side == "B" else pair.a) is None]
        if lone:
            message = f"lora_{side} is missing (lora_{other} is there) for {listed(lone)}."
            yield RejectionReason(ReasonCode.PAIR_INCOMPLETE, message, lone[0])


def check_targets(
    config: AdapterConfig, found: set[str], served: dict[str, LinearModule]
) -> Iterator[RejectionReason]:
    wanted = targeted(
        served.keys(),
        target_modules=config.target_modules,
        exclude_modules=config.exclude_modules,
        layers_to_transform=config.layers_to_transform,
        layers_pattern=config.layers_pattern,
    )
    in_order = list(served)
    if extra := [path for path in in_order if path in found - wanted]:
        message = (
            f"The file has tensors for {listed(extra)}, which the configuration does not target "
            "(target_modules, exclude_modules, layers_to_transform); PEFT would ignore them."
        )
        yield RejectionReason(ReasonCode.TARGETS_DISAGREE, message, "target_modules")
    if missing := [path for path in in_order if path in wanted - found]:
        message = (
            f"The configuration targets {listed(missing)}, but the file has no tensors for it; "
            "the file may be incomplete."
        )
        yield RejectionReason(ReasonCode.TARGETS_DISAGREE, message, "target_modules")


def check_shapes(
    linear: LinearModule, a: TensorEntry, b: TensorEntry, rank: int, base_name: str
) -> Iterator[RejectionReason]:
    for side, entry, expected, base_dimension in (
        ("A", a, f"[{rank}, {linear.in_features}]", (1, linear.in_features)),
        ("B", b, f"[{linear.out_features}, {rank}]", (0, linear.out_features)),
    ):
        axis, features = base_dimension
        found = list(entry.shape)
        if len(found) != 2 or found[axis] != features:
            yield RejectionReason(
                ReasonCode.WRONG_BASE_SHAPE,
                f"{linear.path}: lora_{side} has shape {shortened(found)}, but {base_name} needs "
                f"{expected}. Was the adapter trained on another base model?",
                linear.path,
            )
        elif found[1 - axis] != rank:
            yield RejectionReason(
                ReasonCode.RANK_MISMATCH,
                f"{linear.path}: lora_{side} has rank {found[1 - axis]} (shape {found}), but the "
                f"configuration says {rank} (r and rank_pattern).",
                linear.path,
            )


def module_of(linear: LinearModule, a: TensorEntry, b: TensorEntry, scale: float) -> AdapterModule:
    return AdapterModule(
        path=linear.path,
        layer=linear.layer,
        linear=linear.linear,
        rank=a.shape[0],
        scale=scale,
        a=tensor_ref(a),
        b=tensor_ref(b),
    )


def tensor_ref(entry: TensorEntry) -> TensorRef:
    rows, columns = entry.shape
    dtype = cast(TensorDtype, entry.dtype)
    return TensorRef(entry.name, dtype, (rows, columns), entry.start, entry.end)


def summarized(reasons: list[RejectionReason]) -> Iterator[RejectionReason]:
    """At most three reasons of a code in full; a wrong base would otherwise list every module."""
    count: dict[ReasonCode, int] = {}
    for reason in reasons:
        count[reason.code] = count.get(reason.code, 0) + 1
        if count[reason.code] <= 3:
            yield reason
    for code, total in count.items():
        if total > 3:
            message = f"{total - 3} more modules have the same fault ({code.value})."
            yield RejectionReason(code, message, None)
