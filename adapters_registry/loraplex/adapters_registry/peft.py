"""Turns a PEFT upload into the AdapterSpec the engine multiplies: all of PEFT's meaning."""

import math
import re
from pathlib import Path

from loraplex.adapters_registry.finite import LARGEST, find_not_finite
from loraplex.adapters_registry.peft_checks import (
    check_biases,
    check_complete,
    check_shapes,
    check_tables,
    check_targets,
    tensor_ref,
)
from loraplex.adapters_registry.peft_config import AdapterConfig, parse_config
from loraplex.adapters_registry.peft_targets import PatternValues
from loraplex.adapters_registry.peft_tensors import FoundModule, sort_tensors
from loraplex.adapters_registry.rejection import (
    AdapterRejected,
    ReasonCode,
    RejectionReason,
    listed,
    summarized,
)
from loraplex.adapters_registry.safetensors_guard import Header, read_header
from loraplex.engine.protocol.adapter import AdapterModule, AdapterSpec, ReplacedBias
from loraplex.engine.protocol.identity import (
    Digest,
    digest_of_bytes,
    digest_of_file,
    digest_of_manifest,
)
from loraplex.engine.protocol.module_table import LinearModule, ModuleTable


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
    resolved = Resolution(config, header, table)
    reasons = list(check_tables(resolved.found.tables, weights_path, table))
    if broken := find_not_finite(weights_path, header):
        message = f"Weights are NaN, infinite or beyond {LARGEST} in {listed(broken)}."
        reasons.append(RejectionReason(ReasonCode.WEIGHTS_NOT_FINITE, message, broken[0]))
    if reasons:
        raise AdapterRejected(reasons)
    weights_digest = digest_of_file(weights_path)
    embedding, head = table.ends
    return AdapterSpec(
        digest=adapter_digest(table.base_digest, digest_of_bytes(config_bytes), weights_digest),
        base_digest=table.base_digest,
        weights_digest=weights_digest,
        weights_bytes=header.file_bytes,
        modules=tuple(
            resolved.modules[linear.path]
            for linear in table.modules
            if linear.path in resolved.modules
        ),
        embedding=resolved.modules.get(embedding.path),
        head=resolved.modules.get(head.path),
        biases=tuple(
            ReplacedBias(path, tensor_ref(entry))
            for path, entry in sorted(resolved.found.biases.items())
        ),
    )


class Resolution:
    """Every tensor of the file mapped to a module of the base, at the scale PEFT would use."""

    def __init__(self, config: AdapterConfig, header: Header, table: ModuleTable) -> None:
        """Raises AdapterRejected with every reason found."""
        self._config = config
        self._table = table
        self.modules: dict[str, AdapterModule] = {}
        self.found, reasons = sort_tensors(header, table)
        reasons += check_complete(config, self.found)
        reasons += check_biases(config, self.found, table)
        try:
            reasons += check_targets(config, self.found, table)
            ranks, alphas = PatternValues(config.rank_pattern), PatternValues(config.alpha_pattern)
        except (re.error, RecursionError, OverflowError) as error:
            message = f"A pattern of the configuration cannot be used: {error}."
            raise AdapterRejected(
                [RejectionReason(ReasonCode.CONFIG_FIELD_INVALID, message, "adapter_config")]
            ) from None
        for module in (*table.modules, *table.ends):
            found = self.found.modules.get(module.path)
            if found is not None and found.a is not None and found.b is not None:
                rank = ranks.of(module.path, config.rank)
                faults = list(check_shapes(module, found, rank, table.base_name))
                reasons += faults
                if not faults:
                    alpha = alphas.of(module.path, config.alpha)
                    self.modules[module.path] = self._resolved(module, found, rank, alpha)
        if reasons:
            raise AdapterRejected(summarized(reasons))

    def _resolved(
        self, module: LinearModule, found: FoundModule, rank: int, alpha: float
    ) -> AdapterModule:
        assert found.a is not None and found.b is not None, "checked by the caller"
        return AdapterModule(
            path=module.path,
            layer=module.layer,
            linear=module.linear,
            rank=rank,
            scale=alpha / (math.sqrt(rank) if self._config.use_rslora else rank),
            a=tensor_ref(found.a),
            b=tensor_ref(found.b),
            bias=None if found.added_bias is None else tensor_ref(found.added_bias),
            magnitude=None if found.magnitude is None else tensor_ref(found.magnitude),
        )
