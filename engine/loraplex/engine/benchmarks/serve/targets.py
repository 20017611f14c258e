"""Whom the load asks: models and the keys that may call them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from loraplex.engine.benchmarks.errors import InvalidWorkload

CREDENTIALS_FILE: Final = "credentials.json"


@dataclass(frozen=True)
class Target:
    model: str
    api_key: str | None = field(default=None, repr=False)


def demo_targets(data_dir: Path, models: Sequence[str]) -> tuple[str, list[Target]]:
    """The address of a running `loraplex serve`, and its demo tenants' adapters with their keys.

    With `models`, only those, in that order. Raises InvalidWorkload.
    """
    file = data_dir / CREDENTIALS_FILE
    try:
        credentials: dict[str, Any] = json.loads(file.read_text())
        found = [
            Target(f"{name}/{adapter}", tenant["api_key"])
            for name, tenant in credentials["tenants"].items()
            for adapter in tenant["adapters"]
        ]
        url: str = credentials["base_url"]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise InvalidWorkload(
            f"{file} tells of no running `loraplex serve`; start one, or give --url and --model.",
            field="data_dir",
        ) from None
    by_name = {target.model: target for target in found}
    if unknown := [model for model in models if model not in by_name]:
        known = ", ".join(by_name) or "none"
        raise InvalidWorkload(
            f"{file} knows no model {unknown[0]!r}; it knows {known}.", field="model"
        )
    chosen = [by_name[model] for model in models] or found
    if not chosen:
        raise InvalidWorkload(f"{file} names no adapter; give --url and --model.", field="model")
    return url, chosen
