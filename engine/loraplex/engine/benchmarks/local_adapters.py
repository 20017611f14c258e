"""Adapters in local PEFT folders, as an engine takes them: no registry, no store."""

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from loraplex.engine.adapter_source import AdapterSource
from loraplex.engine.benchmarks.errors import UnusableAdapter
from loraplex.engine.protocol.adapter import AdapterRef, AdapterSpec
from loraplex.engine.protocol.errors import DomainError
from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.engine.protocol.module_table import ModuleTable

ADAPTER_SPECS: Final = "loraplex.adapter_specs"
"""Entry points of `(config_bytes, weights_path, table) -> AdapterSpec`: who knows PEFT's meaning.

They raise a DomainError for what cannot be served. The engine imports no other part.
"""

NAMESPACE: Final = TenantNamespace("bench")
CONFIG_FILE: Final = "adapter_config.json"
WEIGHTS_FILE: Final = "adapter_model.safetensors"

ReadSpec = Callable[[bytes, Path, ModuleTable], AdapterSpec]


class LocalAdapters(AdapterSource):
    """An AdapterSource of references whose URL is a path on this machine."""

    def fetch(self, ref: AdapterRef) -> Path:
        return Path(ref.url)


def open_adapter(folder: Path, table: ModuleTable) -> AdapterRef:
    """The adapter in a PEFT folder, checked as an upload would be; raises UnusableAdapter."""
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        if not (folder / name).is_file():
            raise UnusableAdapter(f"{folder} is no PEFT adapter: it has no {name}.")
    (plugin,) = entry_points(group=ADAPTER_SPECS, name="default")
    read_spec: ReadSpec = plugin.load()
    weights = folder / WEIGHTS_FILE
    try:
        spec = read_spec((folder / CONFIG_FILE).read_bytes(), weights, table)
    except DomainError as error:
        message = f"{folder} cannot be used on {table.base_name}: {error.message}"
        raise UnusableAdapter(message, field=error.field) from error
    return AdapterRef(spec=spec, namespace=NAMESPACE, url=str(weights.resolve()))
